/**
 * Lets many callers wait for one lock, which they do not get, until it is killed.
 *
 *     waiting-callers.js URL NAME COUNT
 */

import { connect } from 'holdfast'
import { argument, tell } from './shared/parent.js'

const locks = await connect(argument(0))
const count = Number(argument(2))
for (let started = 0; started < count; started += 1) void locks.mutex(argument(1)).acquire()
await tell({ kind: 'waiting' })
