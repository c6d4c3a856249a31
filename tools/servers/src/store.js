// @ts-check
// The types that every store of this package shares.

/**
 * A store that is there: an URL for `connect`, fresh and empty, and the way to put everything away again.
 * @typedef {object} Store
 * @property {string} name
 * @property {string} url
 * @property {() => Promise<void>} dispose
 * @property {unknown} [control] What a fault test needs to end, stop and start the servers behind the store. It is
 *   there for the stores of `Controls`, with the type given there.
 */

/**
 * The control of every store that has one.
 * @typedef {{
 *   readonly 'redis': import('./redis.js').RedisServer,
 *   readonly 'redis-masters': import('./redis.js').RedisMasters,
 *   readonly 'redis-sentinel': import('./redis-sentinel.js').RedisSentinel,
 *   readonly 'redis-cluster': import('./redis-cluster.js').RedisCluster,
 *   readonly 'postgres': import('./postgres.js').PostgresServer,
 *   readonly 'mariadb': import('./mysql-family.js').MysqlServer,
 *   readonly 'mysql': import('./mysql-family.js').MysqlServer,
 *   readonly 'memcached': import('./memcached.js').MemcachedServer,
 *   readonly 'etcd': import('./etcd.js').EtcdServer,
 *   readonly 'etcd-cluster': import('./etcd.js').EtcdCluster,
 *   readonly 'consul': import('./consul.js').ConsulServer,
 *   readonly 'consul-cluster': import('./consul.js').ConsulCluster,
 *   readonly 'zookeeper': import('./zookeeper.js').ZookeeperServer,
 *   readonly 'zookeeper-ensemble': import('./zookeeper-ensemble.js').ZookeeperEnsemble,
 * }} Controls
 */

/**
 * What came of asking for a store: it is ready, or it cannot be had here, with a reason in words.
 * A test that gets `not run` must say so; it must not pass.
 * @typedef {{ readonly kind: 'ready', readonly store: Store } | StoreNotRun} StoreOutcome
 */

/** @typedef {{ readonly kind: 'not run', readonly name: string, readonly reason: string }} StoreNotRun */

/**
 * What came of asking for a store that has a control.
 * @template Control
 * @typedef {{ readonly kind: 'ready', readonly store: Store & { readonly control: Control } }
 *   | StoreNotRun} ControlledOutcome
 */

/**
 * One kind of store. `start` gives `not run` when a program that it needs is missing; it rejects when the store
 * is there but does not work, because that is a fault and no reason to leave tests out.
 * @typedef {object} StoreDefinition
 * @property {string} name
 * @property {() => Promise<StoreOutcome>} start
 * @property {readonly string[]} [programs] What it cannot be started without; the names of `src/programs.js`.
 * @property {readonly string[]} [extras] What some of its tests can use besides, for example the client of another
 *   language.
 */

export {}
