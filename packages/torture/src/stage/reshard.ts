/** Slots of a Redis Cluster that move to another master while clients use their keys. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisCluster, RedisServer } from 'holdfast-servers'
import { oneOf } from './relays.js'
import type { Ongoing, Random, StageFault } from './stage.js'

/** So many are moved at a time, at most: those of the keys that are there. */
const SLOTS_MAX = 8
const SLOTS = 16_384
const MIGRATE_MS = 5_000
const MIGRATE_TRIES = 20

interface Move {
  readonly source: RedisServer
  readonly target: RedisServer
  readonly slots: readonly number[]
  readonly masters: readonly RedisServer[]
}

/**
 * As `redis-cli --cluster reshard` does it, but slowly: for a while some keys of a slot are at the old master and some at the
 * new one, so that clients get ASK and TRYAGAIN. In the end the new master has the slots, and keeps them.
 */
export function reshardFault({ nodes, settled }: RedisCluster, ttlMs: number): StageFault {
  return {
    name: 'reshard',
    lastsMs: [ttlMs / 2, 2.5 * ttlMs],
    begin: async (random): Promise<Ongoing> => {
      const move = await chooseMove(nodes, random)
      await begin(move, random)
      return {
        target: `redis:${nodes.indexOf(move.source)} slots ${move.slots.join(' ')}`,
        end: async () => {
          await finish(move)
          await settled()
        },
      }
    },
  }
}

async function chooseMove(nodes: readonly RedisServer[], random: Random): Promise<Move> {
  const roles = await Promise.all(nodes.map(async (node) => (await node.info('replication'))['role']))
  const masters = nodes.filter((_, index) => roles[index] === 'master')
  const used = await Promise.all(masters.map(slotsInUse))
  const filled = masters.filter((_, index) => (used[index]?.length ?? 0) > 0)
  const { chosen: source } = oneOf(filled.length > 0 ? filled : masters, random)
  const { chosen: target } = oneOf(
    masters.filter((node) => node !== source),
    random,
  )
  const slots = used[masters.indexOf(source)] ?? []
  // No name is in use at the moment, so any slot of the master serves.
  return {
    source,
    target,
    masters,
    slots: slots.length > 0 ? slots.slice(0, SLOTS_MAX) : await anySlot(source, random),
  }
}

async function slotsInUse(node: RedisServer): Promise<readonly number[]> {
  const reply = await node.command('SCAN', 0, 'COUNT', 1_000)
  const keys = Array.isArray(reply) && Array.isArray(reply[1]) ? reply[1] : []
  const slots = await Promise.all(
    keys.map(async (key) => await node.command('CLUSTER', 'KEYSLOT', String(key))),
  )
  return [...new Set(slots.map(Number))]
}

async function anySlot(node: RedisServer, random: Random): Promise<readonly number[]> {
  const id = await idOf(node)
  const nodes = String(await node.command('CLUSTER', 'NODES'))
  const line = nodes.split('\n').find((each) => each.startsWith(id))
  const ranges = [...(line ?? '').matchAll(/ (\d+)-(\d+)(?= |$)/g)].map(([, from, to]) => [
    Number(from),
    Number(to),
  ])
  const [from = 0, to = SLOTS - 1] = ranges.at(0) ?? []
  return [from + Math.floor(random() * (to - from))]
}

async function idOf(node: RedisServer): Promise<string> {
  return String(await node.command('CLUSTER', 'MYID'))
}

async function begin({ source, target, slots }: Move, random: Random): Promise<void> {
  const [from, to] = [await idOf(source), await idOf(target)]
  for (const slot of slots) {
    await target.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from)
    await source.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to)
    const keys = await keysIn(source, slot)
    await migrate(
      source,
      target,
      keys.filter(() => random() < 0.5),
    )
  }
}

async function finish({ source, target, slots, masters }: Move): Promise<void> {
  const to = await idOf(target)
  for (const slot of slots) {
    for (let keys = await keysIn(source, slot); keys.length > 0; keys = await keysIn(source, slot)) {
      await migrate(source, target, keys)
    }
    // The new owner first: with the old one first, the slot would have no owner for a moment.
    for (const node of [target, source, ...masters.filter((each) => each !== target && each !== source)]) {
      await node.command('CLUSTER', 'SETSLOT', slot, 'NODE', to)
    }
  }
}

async function keysIn(node: RedisServer, slot: number): Promise<readonly string[]> {
  const reply = await node.command('CLUSTER', 'GETKEYSINSLOT', slot, 1_000)
  return Array.isArray(reply) ? reply.map(String) : []
}

/** A key that has expired meanwhile is no longer there, which MIGRATE answers with NOKEY. A busy machine may be late with it. */
async function migrate(source: RedisServer, target: RedisServer, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return
  for (let tries = 1; ; tries += 1) {
    try {
      await source.command('MIGRATE', '127.0.0.1', target.port, '', 0, MIGRATE_MS, 'KEYS', ...keys)
      return
    } catch (error) {
      if (tries === MIGRATE_TRIES) throw error
      await sleep(50)
    }
  }
}
