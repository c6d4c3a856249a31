import {
  missingReason,
  startZookeeperEnsemble,
  type ZookeeperEnsemble,
  type ZookeeperServer,
} from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { titled } from '../../../../../test/support/titled.js'
import { until } from '../../../../../test/support/wait.js'
import type { ZooKeeper, ZooKeeperOptions } from '../../../src/backends/zookeeper/wire/zookeeper.js'
import { codeOfFailure, connected, disposed, freshPath, missing, NOTHING, remembering } from './support.js'

let ensemble: ZookeeperEnsemble

function serverOf(client: ZooKeeper): ZookeeperServer {
  const found = ensemble.servers.find(({ port }) => client.serverAddress === `127.0.0.1:${port}`)
  if (found === undefined) throw new Error('The client is not connected.')
  return found
}

async function connectedTo(
  wanted: (server: ZookeeperServer) => boolean,
  options: Partial<ZooKeeperOptions> = {},
): Promise<readonly [ZooKeeper, ZookeeperServer]> {
  for (;;) {
    const client = await connected({ hosts: ensemble.servers, sessionMs: 9_000, ...options })
    if (wanted(serverOf(client))) return [client, serverOf(client)]
    await client.close()
  }
}

function succeeds(attempt: Promise<unknown>): Promise<boolean> {
  return attempt.then(
    () => true,
    () => false,
  )
}

async function moves(client: ZooKeeper, from: ZookeeperServer): Promise<void> {
  const old = `127.0.0.1:${from.port}`
  await until('the client has moved', () => client.serverAddress !== null && client.serverAddress !== old)
}

describe.skipIf(missing !== undefined)(
  titled('the ZooKeeper client and three servers', missing === undefined ? null : missingReason([missing])),
  () => {
    beforeAll(async () => {
      ensemble = await startZookeeperEnsemble({ syncLimit: 4 })
    })
    afterAll(() => ensemble?.dispose())

    it('spreads clients over the servers', async () => {
      const addresses = new Set<string | null>()
      for (let count = 0; count < 20; count += 1) {
        const client = await connected({ hosts: ensemble.servers, sessionMs: 10_000 })
        addresses.add(client.serverAddress)
      }
      expect(addresses.size).toBeGreaterThan(1)
    })

    it('takes the session to another server when its own is killed, with nodes and watches', async () => {
      const client = await connected({ hosts: ensemble.servers, sessionMs: 15_000 })
      const path = freshPath()
      await client.create(path, NOTHING, { mode: 'ephemeral' })
      const [kept, missed] = [remembering(), remembering()]
      await client.exists(path, kept.listener)
      await client.exists(`${path}-late`, missed.listener)
      const [sessionId, first] = [client.sessionId, serverOf(client)]
      const others = ensemble.servers.filter((server) => server !== first)
      const other = await connected({ hosts: others, sessionMs: 15_000 })
      await first.kill()
      await until('others write', () => succeeds(other.create(`${path}-late`, NOTHING)))
      await moves(client, first)
      expect(client.sessionId).toBe(sessionId)
      await client.sync(path)
      expect((await client.exists(path))?.ephemeralOwner).toBe(sessionId)
      expect(kept.seen).toEqual([])
      expect(missed.seen).toEqual([`created ${path}-late`])
      await first.restart()
      await ensemble.settled()
    })

    it.each(['leader', 'follower'])('leaves a %s that hangs', async (role) => {
      const leader = await ensemble.leader()
      const [client, first] = await connectedTo((server) => (server === leader) === (role === 'leader'))
      const path = freshPath()
      await client.create(path, NOTHING, { mode: 'ephemeral' })
      await first.pause()
      onTestFinished(async () => {
        await first.resume()
        await ensemble.settled()
      })
      await moves(client, first)
      await until('the ensemble writes', () => succeeds(client.setData(path, NOTHING)))
      expect((await client.exists(path))?.ephemeralOwner).toBe(client.sessionId)
    })

    it('goes on when the leader changes', async () => {
      const leader = await ensemble.leader()
      const hosts = ensemble.servers.filter((server) => server !== leader)
      const client = await connected({ hosts, sessionMs: 20_000 })
      const path = freshPath()
      await client.create(path, NOTHING, { mode: 'ephemeral' })
      await leader.kill()
      expect(await ensemble.failedOver(leader)).not.toBe(leader)
      await until('it writes', () => succeeds(client.setData(path, Buffer.from('x'))))
      expect((await client.exists(path))?.ephemeralOwner).toBe(client.sessionId)
      await leader.restart()
      await ensemble.settled()
    })
  },
)

describe.skipIf(missing !== undefined)(
  titled(
    'the ZooKeeper client and a leader that is parted from the others',
    missing === undefined ? null : missingReason([missing]),
  ),
  () => {
    it('does not know what came of a write, and takes the session to the others', async () => {
      ensemble = await disposed(startZookeeperEnsemble({ syncLimit: 4, cuttable: true }))
      const leader = await ensemble.leader()
      const [client, first] = await connectedTo((server) => server === leader, {
        sessionMs: 40_000,
        requestMs: 2_000,
      })
      const path = freshPath()
      await client.create(path, NOTHING, { mode: 'ephemeral' })
      ensemble.cut(leader, { silently: true })
      const { code, wasSent } = await codeOfFailure(client.create(`${path}-lost`, NOTHING))
      expect([code, wasSent]).toEqual(['CONNECTION_LOSS', true])
      await moves(client, first)
      await client.sync(path)
      expect((await client.exists(path))?.ephemeralOwner).toBe(client.sessionId)
      expect(await client.exists(`${path}-lost`)).toBe(null)
      ensemble.heal(leader)
      await ensemble.settled()
      // What only the old leader had is thrown away.
      const late = await connected({ hosts: [leader], sessionMs: 9_000 })
      await late.sync(path)
      expect(await late.exists(`${path}-lost`)).toBe(null)
    })
  },
)
