import type { Recipe } from '../subject.js'
import { consulProbe } from './consul.js'
import { mysqlProbe, postgresProbe } from './databases.js'
import { etcdProbe } from './etcd.js'
import { memcachedProbe } from './memcached.js'
import type { ServerProbe } from './probe.js'
import { redisProbe } from './redis.js'
import { sqliteProbe } from './sqlite.js'
import { zookeeperProbe } from './zookeeper.js'

const PROBES: Readonly<Record<string, (url: string) => ServerProbe>> = {
  // It is part of the process, so its entries are objects of the process.
  memory: () => async () => ({}),
  sqlite: sqliteProbe,
  redis: redisProbe,
  postgres: postgresProbe,
  mysql: mysqlProbe,
  mariadb: mysqlProbe,
  zookeeper: zookeeperProbe,
  etcd: etcdProbe,
  consul: consulProbe,
  memcached: memcachedProbe,
}

export function probeFor({ store, url }: Pick<Recipe, 'store' | 'url'>): ServerProbe {
  const probe = PROBES[store]
  if (probe === undefined) throw new Error(`There is no probe for ${store}.`)
  return probe(url)
}
