import { type RedisServer, startRedis } from 'holdfast-servers'
import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { OwnedKey } from '../../recipes/redis/owned-key.js'
import type { Scene } from '../../scene.js'

export const asyncReplica: LabCase = {
  name: 'async-replica-failover',
  title: 'A lock on a master whose replica takes over',
  family: 'redis',
  stores: ['redis'],
  story:
    'The lock is `SET name token NX PX ttl` on a master with replicas, so that no single server is needed. But replication ' +
    'is asynchronous: the master answers before any replica has heard of the key.',
  fault:
    'The replica is behind, A gets the lock, and the master dies. The replica is promoted, knows nothing of the lock, and ' +
    'gives it to B while A works.',
  expects: 'overlap',
  ours:
    '`redis:` with `waitReplicas=1`. A grant counts only when `WAIT` has confirmed that a replica has it; one that was not ' +
    'confirmed is taken back. A does not get the lock while the replica is behind. B does, on the new master, whose own ' +
    'replica confirms.',
  open: {
    broken: (world) => new OwnedKey(world),
    ours: ours({ query: 'waitReplicas=1&waitReplicasMs=300', client: { outageMs: 3_000 } }),
  },
  setUp: async (scene) => {
    scene.ttlMs = 20_000
    scene.url = 'redis://127.0.0.1'
  },
  schedule: async (scene) => {
    const master = scene.own(await startRedis())
    const relay = await scene.relay(master.port)
    const replica = await replicaOf(scene, relay.port)
    // It stays with the replica when that is promoted, so that the new master has one too.
    await replicaOf(scene, replica.port)
    const a = await scene.actor('A', { url: master.url })
    // A new replica gets no writes before its first word to the master, which it sends once a second.
    await a.acquire({ waitMs: 10_000 })
    await a.release()
    await hasAllOf(scene, replica, master)
    scene.faultBegins('partition', 'the master from its replica')
    relay.hold(true)
    // Ours is refused with an error, after some seconds in which nothing was confirmed.
    await scene.tries(a.acquire({ waitMs: 6_000 }))
    scene.faultBegins('server-kill', 'the master')
    await master.kill()
    relay.refuse(true)
    relay.cut()
    await replica.command('REPLICAOF', 'NO', 'ONE')
    // A promoted server sends its replicas away, and they come back with the next beat of their own clock.
    await isFollowed(scene, replica)
    scene.say('The replica is promoted.')
    const b = await scene.actor('B', { url: replica.url })
    await b.acquire({ waitMs: 10_000 })
    await b.release()
  },
}

/** A replica that has caught up with its master. */
async function replicaOf(scene: Scene, port: number): Promise<RedisServer> {
  const replica = scene.own(await startRedis({ args: ['--replicaof', `127.0.0.1 ${port}`] }))
  await scene.until(async () => (await replica.info('replication'))['master_link_status'] === 'up')
  return replica
}

/** The replica must not miss the first release: it would keep B out for as long as A's lease. */
async function hasAllOf(scene: Scene, replica: RedisServer, master: RedisServer): Promise<void> {
  await scene.until(async () => {
    const { master_repl_offset: written } = await master.info('replication')
    const { slave_repl_offset: seen } = await replica.info('replication')
    return written === seen
  })
}

/** A server counts only those replicas that are in step with it, and it hears of that later than they do. */
async function isFollowed(scene: Scene, server: RedisServer): Promise<void> {
  await scene.until(
    async () => (await server.info('replication'))['slave0']?.includes('state=online') ?? false,
  )
}
