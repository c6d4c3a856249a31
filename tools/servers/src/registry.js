// @ts-check
import { consulStores } from './consul.js'
import { etcdStores } from './etcd.js'
import { mariadb } from './mariadb.js'
import { memcached } from './memcached.js'
import { memory } from './memory.js'
import { mysql } from './mysql.js'
import { applyPolicy, requiredStores } from './policy.js'
import { postgres } from './postgres.js'
import { redisStores } from './redis-stores.js'
import { sqlite } from './sqlite.js'
import { zookeeperStores } from './zookeeper-stores.js'

/** @typedef {import('./store.js').Controls} Controls */
/** @typedef {import('./store.js').StoreDefinition} StoreDefinition */
/** @typedef {import('./store.js').StoreOutcome} StoreOutcome */

/** Every store that tests can ask for, by name. @type {ReadonlyMap<string, StoreDefinition>} */
export const stores = new Map(
  [
    memory,
    sqlite,
    ...redisStores,
    postgres,
    mariadb,
    mysql,
    ...consulStores,
    memcached,
    ...etcdStores,
    ...zookeeperStores,
  ].map((store) => [store.name, store]),
)

/**
 * Gives a fresh store, or says why it cannot be had. Rejects if the store is required and not there.
 * @template {keyof Controls} Name
 * @overload
 * @param {Name} name
 * @returns {Promise<import('./store.js').ControlledOutcome<Controls[Name]>>}
 */
/**
 * @overload
 * @param {string} name
 * @param {ReadonlyMap<string, StoreDefinition>} [known]
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {Promise<StoreOutcome>}
 */
/**
 * @param {string} name
 * @param {ReadonlyMap<string, StoreDefinition>} [known]
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {Promise<StoreOutcome>}
 */
export async function storeFor(name, known = stores, env = process.env) {
  const definition = known.get(name)
  if (definition === undefined) {
    throw new Error(`There is no store '${name}'; the stores are ${[...known.keys()].join(', ')}.`)
  }
  if (env.HOLDFAST_SERVERS === 'none' && definition.programs !== undefined) {
    return { kind: 'not run', name, reason: 'HOLDFAST_SERVERS=none starts no servers' }
  }
  const required = requiredStores(env.HOLDFAST_REQUIRE_STORES, [...known.keys()])
  return applyPolicy(await definition.start(), required)
}
