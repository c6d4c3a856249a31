import { openConsul } from '../../src/backends/consul/open.js'
import { describeStore, type Variant } from './stores.js'

const variants: readonly Variant[] = [
  {
    recipe: 'session',
    // The servers here take sessions of a second; and the lock of a process that was killed is not to be waited for twice.
    urlFor: (url, tag) => `${url}/${tag}?ttlMinMs=1000&lockDelayMs=0`,
  },
]

/** Registers the suite on one server, or on three. */
export async function describeConsul(store: 'consul' | 'consul-cluster'): Promise<void> {
  await describeStore(store, variants, openConsul)
}
