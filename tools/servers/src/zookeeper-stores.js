// @ts-check
// ZooKeeper as the stores that tests can ask for by name.
import { controlledStore } from './controlled.js'
import { startZookeeper, zookeeperPrograms } from './zookeeper.js'
import { startZookeeperEnsemble } from './zookeeper-ensemble.js'

const needs = { programs: zookeeperPrograms, extras: ['openssl', 'javac', 'curator'] }

/** @type {readonly import('./store.js').StoreDefinition[]} */
export const zookeeperStores = [
  controlledStore('zookeeper', { ...needs, start: () => startZookeeper() }),
  controlledStore('zookeeper-ensemble', { ...needs, start: () => startZookeeperEnsemble() }),
]
