import { openEtcd } from '../../src/backends/etcd/open.js'
import { describeStore, type Variant } from './stores.js'

const variants: readonly Variant[] = [
  { recipe: 'lease', urlFor: (url, tag) => `${url}/${tag}?versionWarning=false` },
]

/** Registers the suite on one server, or on three. */
export async function describeEtcd(store: 'etcd' | 'etcd-cluster'): Promise<void> {
  await describeStore(store, variants, openEtcd)
}
