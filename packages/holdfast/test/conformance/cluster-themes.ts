import { isDeep } from '../../../../test/support/depth.js'
import type { SkipRequest } from '../../src/testing.js'

const REASON = 'several servers cannot change it, so `npm run test:deep` runs it there'

/** The same code decides these on one server and on several. */
const UNAFFECTED = ['timeouts', 'cancellation', 'reentrancy', 'election', 'shared', 'weights']
/** On Redis Cluster, the name of a lock decides which server has it. */
const UNAFFECTED_BY_NAMES = ['naming', 'all']

function skipping(themes: readonly string[]): readonly SkipRequest[] {
  return isDeep ? [] : themes.map((theme) => ({ theme, reason: REASON }))
}

/** What the suite leaves out on several servers in `npm test`, because it runs on one server. */
export function skippedOn(store: string): readonly SkipRequest[] {
  if (/^redis-(sentinel|cluster)$/.test(store)) return skipping(UNAFFECTED)
  if (/-(cluster|ensemble)$/.test(store)) return skipping([...UNAFFECTED, ...UNAFFECTED_BY_NAMES])
  return []
}
