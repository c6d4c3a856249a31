import { isDeep } from '../../../../test/support/depth.js'
import type { SkipRequest } from '../../src/testing.js'

/** Themes that the core decides, with the same few calls of the store that other themes make too. */
const BY_CORE = ['timeouts', 'cancellation', 'reentrancy', 'election']

function skipping(themes: readonly string[], reason: string): readonly SkipRequest[] {
  return isDeep
    ? []
    : themes.map((theme) => ({ theme, reason: `${reason}, so \`npm run test:deep\` runs it there` }))
}

/** What the suite leaves out on several servers in `npm test`, because it runs on one server. */
export function skippedOn(store: string): readonly SkipRequest[] {
  if (!/-(sentinel|cluster|ensemble)$/.test(store)) return []
  const themes = [...BY_CORE, 'shared', 'weights']
  // On Redis Cluster, the name of a lock decides which server has it.
  const named = store.startsWith('redis-') ? [] : ['naming', 'all']
  return skipping([...themes, ...named], 'several servers cannot change it')
}

/** Another driver of a store on which the first driver runs all themes. */
export const OTHER_DRIVER = skipping([...BY_CORE, 'shared', 'weights'], 'another driver cannot change it')

/** Another server that the same code uses in the same way. */
export const OTHER_SERVER = skipping(BY_CORE, 'MySQL runs the same code')

/** A recipe that only learns in another way that its turn has come. */
export const OTHER_WAKE_UP = skipping(
  ['reentrancy', 'election', 'naming', 'shared', 'weights', 'inspection', 'fencing', 'all'],
  'the way of waking up cannot change it',
)
