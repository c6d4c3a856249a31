import { openZookeeper } from '../../src/backends/zookeeper/open.js'
import { describeStore, type Variant } from './stores.js'

const variants: readonly Variant[] = ['sequential', 'ephemeral'].map((recipe) => ({
  recipe,
  urlFor: (url, tag) => `${url}/${tag}?recipe=${recipe}&sessionMs=6000`,
}))

/** Registers the suite on one server, or on three. */
export async function describeZookeeper(store: 'zookeeper' | 'zookeeper-ensemble'): Promise<void> {
  await describeStore(store, variants, openZookeeper)
}
