import type { FaultName } from '../stage/stage.js'
import { WORKER_FAULTS } from './schedule.js'

const NETWORK = [
  'cut',
  'drop-requests',
  'drop-replies',
  'delay',
  'late',
  'half-open',
] as const satisfies readonly FaultName[]
const SERVER = ['server-kill', 'server-pause'] as const satisfies readonly FaultName[]

const OF_STORE: Readonly<Record<string, readonly FaultName[]>> = {
  memory: [],
  sqlite: ['clock'],
  redis: [...NETWORK, 'duplicate', ...SERVER, 'server-swap', 'failover-clock', 'clock', 'evict'],
  'redis-sentinel': [...NETWORK, 'duplicate', ...SERVER, 'failover', 'failover-clock', 'partition'],
  'redis-cluster': [...NETWORK, 'duplicate', ...SERVER, 'failover', 'reshard', 'partition'],
  postgres: [...NETWORK, 'duplicate', ...SERVER, 'server-swap', 'clock'],
  mysql: [...NETWORK, 'duplicate', ...SERVER, 'server-swap', 'clock'],
  mariadb: [...NETWORK, 'duplicate', ...SERVER, 'server-swap', 'clock'],
  zookeeper: [...NETWORK, ...SERVER],
  'zookeeper-ensemble': [...NETWORK, ...SERVER, 'failover', 'partition'],
  etcd: [...NETWORK, ...SERVER],
  'etcd-cluster': [...NETWORK, ...SERVER, 'failover', 'partition'],
  consul: [...NETWORK, ...SERVER],
  'consul-cluster': [...NETWORK, ...SERVER, 'failover'],
  memcached: [...NETWORK, 'duplicate', ...SERVER, 'evict'],
}

/**
 * The faults that a store can have, for people who ask before anything is started. `clock` needs a compiler on the
 * machine, so a stage may have one less.
 */
export function faultsOfStore(store: string): readonly FaultName[] {
  const ofWorkers = WORKER_FAULTS.filter((name) => !(store === 'memory' && name === 'kill'))
  return [...ofWorkers, ...(OF_STORE[store] ?? [])]
}
