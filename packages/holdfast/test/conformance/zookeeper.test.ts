import { openZookeeper } from '../../src/backends/zookeeper/open.js'
import { describeSessions, type SessionVariant } from './session-stores.js'

const variants: readonly SessionVariant[] = ['sequential', 'ephemeral'].map((recipe) => ({
  recipe,
  urlFor: (url, tag) => `${url}/${tag}?recipe=${recipe}&sessionMs=6000`,
}))

await describeSessions('zookeeper', variants, openZookeeper)
