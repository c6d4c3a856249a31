import { existsSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import {
  missingPrograms,
  missingReason,
  requiredStores,
  startZookeeper,
  startZookeeperEnsemble,
  storeFor,
  stores,
  type ZookeeperServer,
  zookeeperSession,
  zookeeperWord,
} from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { titled } from '../support/titled.js'
import { until } from '../support/wait.js'

const [missing] = missingPrograms(['java', 'zookeeper.jar'])
const required = requiredStores(process.env.HOLDFAST_REQUIRE_STORES, [...stores.keys()])
if (missing !== undefined && required.has('zookeeper'))
  throw new Error(`${missing} is required and not there.`)

/** Disposes of what a test started, whatever comes of the test. */
async function started<T extends { dispose(): Promise<void> }>(starting: Promise<T>): Promise<T> {
  const thing = await starting
  onTestFinished(() => thing.dispose())
  return thing
}

function writes(server: ZookeeperServer): Promise<boolean> {
  return server.probe().then(
    () => true,
    () => false,
  )
}

describe.skipIf(missing !== undefined)(
  titled('startZookeeper', missing === undefined ? null : missingReason([missing])),
  () => {
    it('gives a server on the loopback address that gives sessions', async () => {
      const server = await started(startZookeeper({ tickTime: 250, maxSessionMs: 5_000 }))
      expect(server.url).toBe(`zookeeper://127.0.0.1:${server.port}`)
      expect(await server.mode()).toBe('standalone')
      expect(await server.word('conf')).toMatch(/tickTime=250\n(.*\n)*maxSessionTimeout=5000/)
      expect(await zookeeperWord(server.port, 'ruok')).toBe('imok')
      await zookeeperSession(server.port)
    })

    it.skipIf(!existsSync('/proc/net/tcp6'))(
      titled(
        'is reached by nobody but this machine',
        existsSync('/proc/net/tcp6') ? null : 'there is no /proc/net/tcp6',
      ),
      async () => {
        const server = await started(startZookeeper())
        const sockets = ['tcp', 'tcp6'].map((table) => readFileSync(`/proc/net/${table}`, 'utf8')).join('')
        const bound = sockets.match(listening(server.port)) ?? []
        expect(bound.length).toBeGreaterThan(0)
        for (const each of bound) expect(each).toMatch(/0100007F:/)
      },
    )

    it('leaves no process and no folder behind', async () => {
      const server = await startZookeeper()
      const { folder } = server
      await Promise.all([server.dispose(), server.dispose()])
      expect(server.running).toBe(false)
      expect(existsSync(folder)).toBe(false)
      await expect(server.restart()).rejects.toThrow('disposed')
    })

    it('is killed and started again on the same port with what it knew', async () => {
      const server = await started(startZookeeper())
      const { port } = server
      for (let count = 0; count < 5; count += 1) await server.probe()
      const before = await zxidOf(server)
      await server.kill()
      expect(await writes(server)).toBe(false)
      await server.restart()
      expect(server.port).toBe(port)
      expect(await zxidOf(server)).toBeGreaterThanOrEqual(before)
    })

    it('answers nothing while it is paused', async () => {
      const server = await started(startZookeeper())
      await server.pause()
      await expect(zookeeperWord(server.port, 'ruok', { timeoutMs: 500 })).rejects.toThrow('did not answer')
      await expect(zookeeperSession(server.port, { timeoutMs: 500 })).rejects.toThrow('did not answer')
      await server.resume()
      await server.probe()
    })

    it('speaks TLS on its port', async () => {
      const server = await started(startZookeeper({ tls: true }))
      expect(server.url).toBe(`zookeepers://127.0.0.1:${server.port}`)
      const ca = readFileSync(server.ca ?? '', 'utf8')
      const answer = await new Promise<string>((resolve, reject) => {
        const socket = connectTls({ host: '127.0.0.1', port: server.port, ca }, () => socket.write('ruok'))
        socket.once('data', (chunk) => resolve(chunk.toString()))
        socket.once('error', reject)
      })
      expect(answer).toBe('imok')
      expect(await zookeeperWord(server.port, 'ruok').catch(() => '')).not.toBe('imok')
    })

    it('can be asked for by name', async () => {
      const outcome = await storeFor('zookeeper')
      if (outcome.kind !== 'ready') throw new Error(outcome.reason)
      onTestFinished(() => outcome.store.dispose())
      expect(outcome.store.url).toBe(outcome.store.control.url)
      await outcome.store.control.probe()
    })
  },
)

describe.skipIf(missing !== undefined)(
  titled('startZookeeperEnsemble', missing === undefined ? null : missingReason([missing])),
  () => {
    it('gives three servers with one leader, and another one when it is killed', async () => {
      const ensemble = await started(startZookeeperEnsemble())
      expect(ensemble.url).toBe(
        `zookeeper://${ensemble.servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
      )
      const leader = await ensemble.leader()
      expect(await leader.mode()).toBe('leader')
      const followers = await ensemble.followers()
      expect(followers.length).toBe(2)
      expect(() => ensemble.cut(leader)).toThrow('cuttable')
      await leader.kill()
      const next = await ensemble.failedOver(leader)
      expect(followers).toContain(next)
      await leader.restart()
      await ensemble.settled()
      expect(await ensemble.followers()).toContain(leader)
      // Two of three gone: nobody writes any more.
      await Promise.all(followers.map((server) => server.kill()))
      await until('the last one serves nobody', async () => (await leader.mode()) === undefined)
      expect(await writes(leader)).toBe(false)
      await Promise.all(followers.map((server) => server.restart()))
      await ensemble.settled()
    })

    it.each([false, true])('parts the leader from the others, silently: %s', async (silently) => {
      const ensemble = await started(startZookeeperEnsemble({ cuttable: true, syncLimit: 4 }))
      const leader = await ensemble.leader()
      ensemble.cut(leader, { silently })
      const next = await ensemble.failedOver(leader)
      await until('the old one serves nobody', async () => (await leader.mode()) === undefined)
      expect(await writes(leader)).toBe(false)
      await next.probe()
      // It is parted for good: it does not come back by another way.
      await sleep(3_000)
      expect(await leader.mode()).toBe(undefined)
      const reachable = await new Promise<boolean>((resolve) => {
        const socket = connect({ host: '127.0.0.1', port: leader.port }, () => {
          socket.destroy()
          resolve(true)
        })
        socket.once('error', () => resolve(false))
      })
      expect(reachable).toBe(true)
      ensemble.heal(leader)
      await ensemble.settled()
      expect(await leader.mode()).toMatch(/leader|follower/)
    })

    it('parts a follower, and starts again what was parted', async () => {
      const ensemble = await started(startZookeeperEnsemble({ cuttable: true, syncLimit: 4 }))
      const leader = await ensemble.leader()
      for (const follower of await ensemble.followers()) {
        ensemble.cut(follower)
        await until('it serves nobody', async () => (await follower.mode()) === undefined)
        expect(await ensemble.leader()).toBe(leader)
        await follower.kill()
        await follower.restart()
        expect(await writes(follower)).toBe(false)
        ensemble.heal(follower)
        await ensemble.settled()
      }
    })
  },
)

function listening(port: number): RegExp {
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  return new RegExp(`[0-9A-F]+:${hex} [0-9A-F]+:0000 0A`, 'g')
}

/** The number of the last change, which grows with every one. */
async function zxidOf(server: ZookeeperServer): Promise<bigint> {
  const found = /^Zxid: (0x[0-9a-f]+)$/m.exec(await server.word('srvr'))?.[1]
  if (found === undefined) throw new Error('The server does not say how far it is.')
  return BigInt(found)
}
