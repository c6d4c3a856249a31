/**
 * The recipe `add`: whoever stores the item first has the lock, and only its owner changes or deletes it. It knows no line,
 * so whoever waits asks again and again, and no order is kept.
 */

import type { Guarantees } from '../../core/backend.js'
import { RECORD_GUARANTEES } from './record.js'

export const ADD_GUARANTEES: Guarantees = { ...RECORD_GUARANTEES, fair: false, weights: 'none', limitMax: 1 }
