import { setTimeout as sleep } from 'node:timers/promises'
import {
  missingReason,
  startProxy,
  startZookeeper,
  type TcpProxy,
  type ZookeeperServer,
} from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../../test/support/titled.js'
import { until } from '../../../../../test/support/wait.js'
import {
  type SessionState,
  ZooKeeper,
  type ZooKeeperOptions,
} from '../../../src/backends/zookeeper/wire/zookeeper.js'
import { codeOfFailure, connected, disposed, freshPath, missing, NOTHING, remembering } from './support.js'

let server: ZookeeperServer

function open(options: Partial<ZooKeeperOptions> = {}): Promise<ZooKeeper> {
  return connected({ hosts: [server], sessionMs: 6_000, ...options })
}

/** A client behind a proxy that can be told to fail. */
async function openBehindProxy(
  options: Partial<ZooKeeperOptions> = {},
): Promise<{ client: ZooKeeper; proxy: TcpProxy }> {
  const proxy = await disposed(startProxy(server.port))
  return { client: await open({ hosts: [{ host: '127.0.0.1', port: proxy.port }], ...options }), proxy }
}

function statesOf(client: ZooKeeper): SessionState[] {
  const states: SessionState[] = []
  client.onState((state) => states.push(state))
  return states
}

describe.skipIf(missing !== undefined)(
  titled('a session of the ZooKeeper client', missing === undefined ? null : missingReason([missing])),
  () => {
    beforeAll(async () => {
      server = await startZookeeper()
    })
    afterAll(() => server?.dispose())

    it('goes on with its nodes and watches after a connection is cut', async () => {
      const { client, proxy } = await openBehindProxy()
      const [other, states] = [await open(), statesOf(client)]
      const [path, sessionId] = [freshPath(), client.sessionId]
      await client.create(path, NOTHING)
      await client.create(`${path}/mine`, NOTHING, { mode: 'ephemeral' })
      const watches = {
        changed: remembering(),
        kept: remembering(),
        list: remembering(),
        made: remembering(),
      }
      await client.getData(path, watches.changed.listener)
      await client.getData(`${path}/mine`, watches.kept.listener)
      await client.children(path, watches.list.listener)
      await client.exists(`${path}/new`, watches.made.listener)
      proxy.refuse(true)
      proxy.cut()
      await until('it is suspended', () => client.state === 'suspended')
      expect(client.serverAddress).toBe(null)
      expect(await codeOfFailure(client.exists(path))).toEqual({ code: 'CONNECTION_LOSS', wasSent: false })
      await other.setData(path, Buffer.from('missed'))
      await other.create(`${path}/new`, NOTHING)
      proxy.refuse(false)
      await until('it is connected', () => client.state === 'connected')
      expect(client.sessionId).toBe(sessionId)
      await client.sync(path)
      expect(watches.changed.seen).toEqual([`changed ${path}`])
      expect(watches.list.seen).toEqual([`children ${path}`])
      expect(watches.made.seen).toEqual([`created ${path}/new`])
      expect(watches.kept.seen).toEqual([])
      await other.delete(`${path}/mine`)
      await client.sync(path)
      expect(watches.kept.seen).toEqual([`deleted ${path}/mine`])
      expect(states).toEqual(['suspended', 'connected'])
    })

    it('restores more watches than fit in one frame', async () => {
      const { client, proxy } = await openBehindProxy({ sessionMs: 20_000 })
      const path = freshPath()
      await client.create(path, NOTHING)
      const { listener, seen } = remembering()
      const names = Array.from({ length: 3_000 }, (_, index) => `${path}/${String(index).padStart(200, 'n')}`)
      await Promise.all(names.map((name) => client.exists(name, listener)))
      proxy.cut()
      await until('it is connected again', () => client.state === 'connected' && proxy.accepted > 1)
      for (const name of [names[0], names[1_500], names[2_999]]) await client.create(name ?? '', NOTHING)
      await client.sync(path)
      expect(seen).toEqual([names[0], names[1_500], names[2_999]].map((name) => `created ${name}`))
    })

    it('sends credentials again on a new connection', async () => {
      const auth = [{ scheme: 'digest', credential: 'user:secret' }]
      const { client, proxy } = await openBehindProxy({ auth })
      await client.addAuth('digest', 'second:secret')
      const path = freshPath()
      const acl = [{ perms: 31, scheme: 'auth', id: '' }]
      await client.create(path, Buffer.from('mine'), { acl })
      expect((await client.getAcl(path)).acl.length).toBe(2)
      proxy.cut()
      await until('it is connected again', () => client.state === 'connected' && proxy.accepted > 1)
      const after = await client.create(`${path}/more`, NOTHING, { acl })
      expect((await client.getAcl(after.path)).acl.length).toBe(2)
    })

    it('does not know what came of a request whose answer was lost', async () => {
      const { client, proxy } = await openBehindProxy({ requestMs: 3_000 })
      const path = freshPath()
      proxy.dropReplies(true)
      const creating = client.create(path, NOTHING, { mode: 'ephemeral' })
      expect(await codeOfFailure(creating)).toEqual({ code: 'CONNECTION_LOSS', wasSent: true })
      proxy.dropReplies(false)
      await until('it is connected', () => client.state === 'connected')
      expect((await client.exists(path))?.ephemeralOwner).toBe(client.sessionId)
    })

    it('notices a server that hangs, and goes on when it goes on', async () => {
      const own = await disposed(startZookeeper())
      const client = await open({ hosts: [own], sessionMs: 3_000 })
      const states = statesOf(client)
      await client.create('/kept', NOTHING, { mode: 'ephemeral' })
      await own.pause()
      const heard = client.heardFrom
      const asked = codeOfFailure(client.exists('/kept'))
      await until('it is suspended', () => client.state === 'suspended')
      expect(await asked).toEqual({ code: 'CONNECTION_LOSS', wasSent: true })
      expect(client.heardFrom).toBe(heard)
      await own.resume()
      await until('it is connected', () => client.state === 'connected')
      expect((await client.exists('/kept'))?.ephemeralOwner).toBe(client.sessionId)
      expect(states).toEqual(['suspended', 'connected'])
    })

    it('notices a hung server with nothing but pings, and is over when nobody answers for its whole life', async () => {
      const own = await disposed(startZookeeper())
      const client = await open({ hosts: [own], sessionMs: 1_500 })
      const states = statesOf(client)
      const { listener, seen } = remembering()
      await client.exists('/nothing', listener)
      await own.pause()
      await until('it is over', () => client.state === 'expired')
      expect(performance.now() - client.heardFrom).toBeGreaterThanOrEqual(client.sessionMs)
      expect(states).toEqual(['suspended', 'expired'])
      expect(seen).toEqual(['none /nothing'])
      await own.resume()
      await sleep(300)
      expect(client.state).toBe('expired')
      expect(await codeOfFailure(client.exists('/'))).toEqual({ code: 'SESSION_EXPIRED', wasSent: false })
      await client.close()
      expect(client.state).toBe('expired')
    })

    it('is kept by pings alone, on one connection', async () => {
      const { client, proxy } = await openBehindProxy({ sessionMs: 4_000 })
      const path = freshPath()
      await client.create(path, NOTHING, { mode: 'ephemeral' })
      const before = client.heardFrom
      await sleep(6_000)
      expect(client.heardFrom).toBeGreaterThan(before + 2_000)
      expect(proxy.accepted).toBe(1)
      expect((await client.exists(path))?.ephemeralOwner).toBe(client.sessionId)
    })

    it('counts its life from the sending of what was answered', async () => {
      const { client, proxy } = await openBehindProxy({ sessionMs: 20_000 })
      proxy.delay(100)
      const before = performance.now()
      const asked = client.exists('/')
      const sent = performance.now()
      await asked
      expect(client.heardFrom).toBeGreaterThanOrEqual(before)
      expect(client.heardFrom).toBeLessThanOrEqual(sent)
    })

    it('expires when it is abandoned', async () => {
      const [client, other] = [await open({ sessionMs: 1_000 }), await open()]
      const path = freshPath()
      await client.create(path, NOTHING, { mode: 'ephemeral' })
      const pending = codeOfFailure(client.sync(path))
      client.abandon()
      expect(await pending).toEqual({ code: 'CLOSED', wasSent: true })
      expect(client.state).toBe('closed')
      expect(await other.exists(path)).not.toBe(null)
      await until('the node is gone', async () => (await other.exists(path)) === null)
      const again = ZooKeeper.connect({ hosts: [server], sessionMs: 1_000, session: client.sessionKey })
      expect(await codeOfFailure(again)).toMatchObject({ code: 'SESSION_EXPIRED' })
    })

    it('is over when another client goes on with it and closes it', async () => {
      const { client, proxy } = await openBehindProxy()
      const states = statesOf(client)
      const { listener, seen } = remembering()
      const path = freshPath()
      await client.create(path, NOTHING, { mode: 'ephemeral' })
      await client.exists(path, listener)
      // It may not take its session back before the other one has closed it.
      proxy.refuse(true)
      const thief = await open({ session: client.sessionKey })
      expect(thief.sessionId).toBe(client.sessionId)
      await thief.close()
      proxy.refuse(false)
      await until('it is over', () => client.state === 'expired')
      expect(await codeOfFailure(client.exists(path))).toEqual({ code: 'SESSION_EXPIRED', wasSent: false })
      expect(states.at(-1)).toBe('expired')
      expect(seen.length).toBe(1)
      expect(await (await open()).exists(path)).toBe(null)
    })

    it('survives a server that is killed and started again', async () => {
      const own = await disposed(startZookeeper())
      const client = await open({ hosts: [own], sessionMs: 20_000 })
      await client.create('/kept', NOTHING, { mode: 'ephemeral' })
      const { listener, seen } = remembering()
      await client.exists('/kept', listener)
      await own.kill()
      await until('it is suspended', () => client.state === 'suspended')
      await own.restart()
      await until('it is connected', () => client.state === 'connected')
      expect((await client.exists('/kept'))?.ephemeralOwner).toBe(client.sessionId)
      await client.delete('/kept')
      await client.sync('/')
      expect(seen).toEqual(['deleted /kept'])
    })

    it('does not wait for ever at a server that nobody has, or that says nothing', async () => {
      const proxy = await disposed(startProxy(server.port))
      proxy.hold(true)
      const silent = open({ hosts: [{ host: '127.0.0.1', port: proxy.port }], sessionMs: 600 })
      expect(await codeOfFailure(silent)).toEqual({ code: 'CONNECTION_LOSS', wasSent: false })
      const nobody = open({ hosts: [{ host: '127.0.0.1', port: 1 }], sessionMs: 300 })
      expect(await codeOfFailure(nobody)).toEqual({ code: 'CONNECTION_LOSS', wasSent: false })
    })

    it('closes in a bounded time although the server hangs', async () => {
      const { client, proxy } = await openBehindProxy({ sessionMs: 1_000 })
      proxy.hold(true)
      await client.close()
      expect(client.state).toBe('closed')
    })

    it('answers what was asked before it closes', async () => {
      const client = await open()
      const path = freshPath()
      const [made, , late] = await Promise.all([
        client.create(path, NOTHING),
        client.close(),
        codeOfFailure(client.exists(path)),
      ])
      expect(made.path).toBe(path)
      expect(late).toEqual({ code: 'CLOSED', wasSent: false })
    })
  },
)
