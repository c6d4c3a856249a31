/** Every store with every recipe that can be staged. */

import { consulDefinitions } from './consul.js'
import { etcdDefinitions } from './etcd.js'
import { memcachedDefinitions } from './memcached.js'
import { memoryDefinitions } from './memory.js'
import { mysqlDefinitions } from './mysql.js'
import { postgresDefinitions } from './postgres.js'
import { redisDefinitions } from './redis.js'
import { redisGroupDefinitions } from './redis-groups.js'
import { sqliteDefinitions } from './sqlite.js'
import type { StageDefinition } from './stage.js'
import { zookeeperDefinitions } from './zookeeper.js'

export const stageDefinitions: readonly StageDefinition[] = [
  ...memoryDefinitions,
  ...sqliteDefinitions,
  ...redisDefinitions,
  ...redisGroupDefinitions,
  ...postgresDefinitions,
  ...mysqlDefinitions,
  ...zookeeperDefinitions,
  ...etcdDefinitions,
  ...consulDefinitions,
  ...memcachedDefinitions,
]

/** The stage of a store with one of its recipes, or with its first, which is its default. Undefined if there is none. */
export function definitionFor(store: string, recipe?: string): StageDefinition | undefined {
  return stageDefinitions.find(
    (each) => each.store === store && (recipe === undefined || each.recipe === recipe),
  )
}
