/** How the stores take long queues. */

import { join } from 'node:path'
import type { Bench, Findings, Group } from '../group.js'
import { growth, withServer } from './growth.js'
import { holders } from './holders.js'

/** `most`: the longest queue that the store takes in a time that can be waited for. */
const SERVERS: readonly { readonly name: string; readonly most: number; readonly mostTimes?: number }[] = [
  { name: 'redis', most: 5_000, mostTimes: 1.5 },
  { name: 'postgres', most: 1_000 },
  { name: 'mariadb', most: 1_000 },
  { name: 'mysql', most: 1_000 },
  { name: 'memcached', most: 1_000 },
  { name: 'etcd', most: 1_000 },
  { name: 'consul', most: 1_000 },
  { name: 'zookeeper', most: 1_000 },
]

const SIZES = [10, 100, 1_000, 5_000]

function sizesUpTo(most: number, { quick }: Bench): readonly number[] {
  return SIZES.filter((size) => size <= (quick ? Math.min(most, 100) : most))
}

function embedded(name: string, most: number, urlOf: (bench: Bench) => string): Group {
  const run = (bench: Bench): Promise<Findings> =>
    growth(bench, { name, url: urlOf(bench), pid: null }, sizesUpTo(most, bench))
  return { name: `queue-${name}`, about: aboutQueue(name), run }
}

function aboutQueue(name: string): string {
  return `a turn, and waiting, for queues of 10 and more on ${name}`
}

export const queueGroups: readonly Group[] = [
  embedded('memory', 5_000, () => 'memory:'),
  embedded('sqlite', 1_000, ({ folder }) => `sqlite:${join(folder, 'queue.db')}`),
  ...SERVERS.map(({ name, most, ...bar }) => ({
    name: `queue-${name}`,
    about: aboutQueue(name),
    run: (bench: Bench) =>
      withServer(name, (store) => growth(bench, { ...store, ...bar }, sizesUpTo(most, bench))),
  })),
  { name: 'queue-holders', about: 'a semaphore with 10 to 10,000 holders on redis', run: holders },
]
