// @ts-check
export { browserFor, CHROMIUM_FLAGS, chromiumPath } from './browser.js'
export { clockPrograms, makeClock, WallClock } from './clock.js'
export { ConsulServer, startConsul, startConsulCluster } from './consul.js'
export { consulRequest } from './consul-wire.js'
export { EtcdServer, startEtcd, startEtcdCluster } from './etcd.js'
export { EtcdError, etcdRequest } from './etcd-wire.js'
export { ensurePrograms } from './install.js'
export { startMariadb } from './mariadb.js'
export { MemcachedServer, memcachedCommand, squeezeMemcached, startMemcached } from './memcached.js'
export { startMysql } from './mysql.js'
export { MysqlServer } from './mysql-family.js'
export { mysqlQuery } from './mysql-wire.js'
export { Pgbouncer, startPgbouncer } from './pgbouncer.js'
export { requiredStores, StoreMissingError } from './policy.js'
export { PostgresServer, startPostgres } from './postgres.js'
export { postgresQuery } from './postgres-wire.js'
export { ServerProcess, startServer } from './process.js'
export { missingPrograms, missingReason, ProgramMissingError } from './programs.js'
export { startProxy, TcpProxy } from './proxy.js'
export { startAddressProxies } from './proxy-addresses.js'
export { RedisServer, squeezeRedis, startRedis, startRedisMasters } from './redis.js'
export { startRedisCluster } from './redis-cluster.js'
export { startRedisSentinel } from './redis-sentinel.js'
export { storeFor, stores } from './registry.js'
export { ReplyError, redisCommand } from './resp.js'
export { hostSharedServers, sharedServersVariable, sharedStoreFor } from './shared.js'
export { ownerOfPort, portsOfProcess } from './sockets.js'
export { startMysqlReplica, startMysqlSource, startPostgresStandby, startRedisReplica } from './standby.js'
export { QueryError } from './wire.js'
export { startZookeeper, ZookeeperServer } from './zookeeper.js'
export { startZookeeperEnsemble } from './zookeeper-ensemble.js'
export { zookeeperSession, zookeeperWord } from './zookeeper-wire.js'

/** @typedef {import('./browser.js').BrowserOutcome} BrowserOutcome */
/** @typedef {import('./consul.js').ConsulCluster} ConsulCluster */
/** @typedef {import('./consul.js').ConsulOptions} ConsulOptions */
/** @typedef {import('./consul-wire.js').ConsulAnswer} ConsulAnswer */
/** @typedef {import('./memcached.js').MemcachedOptions} MemcachedOptions */
/** @typedef {import('./etcd.js').EtcdCluster} EtcdCluster */
/** @typedef {import('./etcd.js').EtcdOptions} EtcdOptions */
/** @typedef {import('./mysql-family.js').MysqlOptions} MysqlOptions */
/** @typedef {import('./pgbouncer.js').PgbouncerOptions} PgbouncerOptions */
/** @typedef {import('./postgres.js').PostgresOptions} PostgresOptions */
/** @typedef {import('./process.js').ServerPlan} ServerPlan */
/** @typedef {import('./redis.js').RedisMasters} RedisMasters */
/** @typedef {import('./redis.js').RedisOptions} RedisOptions */
/** @typedef {import('./redis-cluster.js').RedisCluster} RedisCluster */
/** @typedef {import('./redis-sentinel.js').RedisSentinel} RedisSentinel */
/** @typedef {import('./resp.js').Reply} Reply */
/**
 * @template Server
 * @typedef {import('./standby.js').Standby<Server>} Standby
 */
/** @typedef {import('./store.js').Controls} Controls */
/** @typedef {import('./store.js').Store} Store */
/** @typedef {import('./store.js').StoreDefinition} StoreDefinition */
/** @typedef {import('./store.js').StoreOutcome} StoreOutcome */
/** @typedef {import('./zookeeper.js').ZookeeperOptions} ZookeeperOptions */
/** @typedef {import('./zookeeper-ensemble.js').ZookeeperEnsemble} ZookeeperEnsemble */
