/** Everything on one Redis server. */

import type { Group } from '../group.js'
import { crowd, processes } from './contended.js'
import { handOver } from './hand-over.js'
import { idempotency } from './idempotency.js'
import { serverCpu } from './server-cpu.js'
import { bytes, held, lifetime } from './stock.js'
import { uncontended } from './uncontended.js'

export const redisGroups: readonly Group[] = [
  {
    name: 'redis-uncontended-1',
    about: 'acquire + release, one caller, against the bare client and the peers',
    run: (bench) => uncontended(bench, 1),
  },
  {
    name: 'redis-uncontended-64',
    about: 'the same with 64 callers, each with a name of its own',
    run: (bench) => uncontended(bench, 64),
  },
  { name: 'redis-crowd-32', about: '32 callers of one process, one lock', run: crowd },
  { name: 'redis-processes-4x8', about: '4 processes with 8 callers each, one lock', run: processes },
  { name: 'redis-hand-over', about: 'how long a hand-over between two processes takes', run: handOver },
  { name: 'redis-server-cpu', about: 'processor time of the server for each acquisition', run: serverCpu },
  { name: 'redis-held-10k', about: 'what it costs to keep 10,000 locks', run: held },
  { name: 'redis-bytes', about: 'memory of the server for each of a million held locks', run: bytes },
  {
    name: 'redis-idempotency-1',
    about: 'first run and replay, one caller, against bare round trips and the peers',
    run: (bench) => idempotency(bench, 1),
  },
  {
    name: 'redis-idempotency-64',
    about: 'the same with 64 callers',
    run: (bench) => idempotency(bench, 64),
  },
  { name: 'redis-lifetime', about: 'a million names leave no key behind', run: lifetime },
]
