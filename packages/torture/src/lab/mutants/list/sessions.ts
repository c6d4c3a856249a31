import type { RecipeMutant } from '../mutant.js'
import { evictedHolder } from '../trials/eviction.js'
import { middleLeaves } from '../trials/line.js'
import { lateRelease } from '../trials/release.js'

const BACKENDS = 'holdfast/src/backends'

/** In the code that ZooKeeper and etcd share. */
const toldTooMuch = {
  file: `${BACKENDS}/sessions/line-backend.ts`,
  find: 'left.length < ahead.length && admittedCount([...left, claim], shape.limit) > left.length',
  replace: 'left.length < ahead.length',
  trial: middleLeaves,
  expects: 'overlap',
} as const

export const SESSION_MUTANTS: readonly RecipeMutant[] = [
  {
    ...toldTooMuch,
    name: 'sequential: let in when the one before is gone',
    store: 'zookeeper',
    query: 'recipe=sequential',
  },
  {
    name: 'sequential: own node not looked at',
    store: 'zookeeper',
    query: 'recipe=sequential',
    file: `${BACKENDS}/zookeeper/sequential.ts`,
    find: 'own.filter((_, index) => stats[index]?.ephemeralOwner === client.sessionId)',
    replace: 'own.filter((_, index) => index < stats.length)',
    trial: evictedHolder,
    expects: 'overlap',
  },
  {
    name: 'ephemeral: release whoever has the node',
    store: 'zookeeper',
    query: 'recipe=ephemeral',
    file: `${BACKENDS}/zookeeper/ephemeral.ts`,
    find: "{ type: 'check', path: folder, version },",
    replace: '',
    trial: lateRelease,
    expects: 'overlap',
  },
  { ...toldTooMuch, name: 'etcd: let in when the one before is gone', store: 'etcd' },
  {
    name: 'etcd: own key not looked at',
    store: 'etcd',
    file: `${BACKENDS}/etcd/nodes.ts`,
    find: 'if (kv?.createRevision === node.fence && kv.lease === session.id) there.add(node)',
    replace: 'if (kv !== null) there.add(node)',
    trial: evictedHolder,
    expects: 'overlap',
  },
  {
    name: 'consul: release whoever has the key',
    store: 'consul',
    file: `${BACKENDS}/consul/kv.ts`,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is a text of the source.
    find: "{ method: 'DELETE', path: pathOf(key), query: `cas=${index}` }",
    replace: "{ method: 'DELETE', path: pathOf(key) }",
    trial: lateRelease,
    expects: 'overlap',
  },
  {
    name: 'consul: own key not looked at',
    store: 'consul',
    query: 'ttlMinMs=1000',
    file: `${BACKENDS}/consul/mutex.ts`,
    find: "const why = outcome.kind === 'done' ? undefined : outcome.reasons.get(at)",
    replace: "const why = outcome.kind === 'done' ? undefined : outcome.reasons.get(-1)",
    trial: evictedHolder,
    expects: 'overlap',
  },
  {
    name: 'memcached: release whatever is there',
    store: 'memcached',
    file: `${BACKENDS}/memcached/items.ts`,
    // biome-ignore-start lint/suspicious/noTemplateCurlyInString: they are texts of the source.
    find: '`md ${key} C${cas}\\r\\n`',
    replace: '`md ${key}\\r\\n`',
    // biome-ignore-end lint/suspicious/noTemplateCurlyInString: as above.
    trial: lateRelease,
    expects: 'overlap',
  },
]
