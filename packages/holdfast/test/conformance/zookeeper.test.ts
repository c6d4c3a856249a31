import { openZookeeper } from '../../src/backends/zookeeper/open.js'
import { describeStore, type Variant } from './stores.js'

const variants: readonly Variant[] = ['sequential', 'ephemeral'].map((recipe) => ({
  recipe,
  urlFor: (url, tag) => `${url}/${tag}?recipe=${recipe}&sessionMs=6000`,
}))

await describeStore('zookeeper', variants, openZookeeper)
