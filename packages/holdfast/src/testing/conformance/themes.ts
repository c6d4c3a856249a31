import { all } from './all.js'
import { cancellation } from './cancellation.js'
import { closing } from './closing.js'
import { election } from './election.js'
import { exclusion } from './exclusion.js'
import { fairness } from './fairness.js'
import { fencing } from './fencing.js'
import { inspection } from './inspection.js'
import { loss } from './loss.js'
import { lostReplies } from './lost-replies.js'
import { naming } from './naming.js'
import { reentrancy } from './reentrancy.js'
import { renewal } from './renewal.js'
import { shared } from './shared.js'
import type { Theme } from './theme.js'
import { timeouts } from './timeouts.js'
import { weights } from './weights.js'

/** In the order in which a new backend best meets them: what everything rests on comes first. */
export const THEMES: readonly Theme[] = [
  exclusion,
  timeouts,
  cancellation,
  fencing,
  loss,
  renewal,
  shared,
  weights,
  fairness,
  naming,
  lostReplies,
  inspection,
  closing,
  reentrancy,
  all,
  election,
]
