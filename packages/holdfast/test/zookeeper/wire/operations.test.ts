import { setTimeout as sleep } from 'node:timers/promises'
import { missingReason, startZookeeper, type ZookeeperServer } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../../test/support/titled.js'
import { until } from '../../../../../test/support/wait.js'
import {
  CREATOR_ACL,
  PERMISSION,
  type ZooKeeper,
  type ZooKeeperOptions,
} from '../../../src/backends/zookeeper/wire/zookeeper.js'
import { codeOfFailure, connected, freshPath, missing, NOTHING, remembering } from './support.js'

let server: ZookeeperServer

function open(options: Partial<ZooKeeperOptions> = {}): Promise<ZooKeeper> {
  return connected({ hosts: [server], sessionMs: 8_000, ...options })
}

describe.skipIf(missing !== undefined)(
  titled('the operations of the ZooKeeper client', missing === undefined ? null : missingReason([missing])),
  () => {
    beforeAll(async () => {
      server = await startZookeeper({ args: ['-Dznode.container.checkIntervalMs=200'] })
    })
    afterAll(() => server?.dispose())

    it('has a session with what the server allows', async () => {
      const before = performance.now()
      const client = await open({ sessionMs: 500 })
      expect(client.state).toBe('connected')
      expect(client.sessionMs).toBe(1_000)
      expect(client.sessionId).not.toBe(0n)
      expect(client.serverAddress).toBe(`127.0.0.1:${server.port}`)
      expect(client.heardFrom).toBeGreaterThanOrEqual(before)
      expect(client.heardFrom).toBeLessThanOrEqual(performance.now())
    })

    it('creates, reads, changes and deletes', async () => {
      const client = await open()
      const path = freshPath()
      const made = await client.create(path, Buffer.from('one'))
      expect(made).toMatchObject({ path, stat: { version: 0, dataLength: 3, ephemeralOwner: 0n } })
      expect((await client.getData(path)).data.toString()).toBe('one')
      expect(await client.setData(path, Buffer.from('second'), 0)).toMatchObject({
        version: 1,
        dataLength: 6,
      })
      const read = await client.getData(path)
      expect(read.data.toString()).toBe('second')
      expect(read.stat.czxid).toBe(made.stat.czxid)
      expect(read.stat.mzxid).toBeGreaterThan(made.stat.mzxid)
      await client.delete(path, 1)
      expect(await client.exists(path)).toBe(null)
      expect((await client.getData('/')).stat.numChildren).toBeGreaterThan(0)
    })

    it('says which refusal it was', async () => {
      const client = await open()
      const path = freshPath()
      const refused = (code: string) => ({ code, wasSent: true })
      expect(await codeOfFailure(client.getData(path))).toEqual(refused('NO_NODE'))
      expect(await codeOfFailure(client.children(path))).toEqual(refused('NO_NODE'))
      expect(await codeOfFailure(client.setData(path, NOTHING))).toEqual(refused('NO_NODE'))
      expect(await codeOfFailure(client.delete(path))).toEqual(refused('NO_NODE'))
      expect(await codeOfFailure(client.create(`${path}/a/b`, NOTHING))).toEqual(refused('NO_NODE'))
      await client.create(path, NOTHING)
      expect(await codeOfFailure(client.create(path, NOTHING))).toEqual(refused('NODE_EXISTS'))
      expect(await codeOfFailure(client.setData(path, NOTHING, 7))).toEqual(refused('BAD_VERSION'))
      expect(await codeOfFailure(client.delete(path, 7))).toEqual(refused('BAD_VERSION'))
      await client.create(`${path}/child`, NOTHING, { mode: 'ephemeral' })
      expect(await codeOfFailure(client.delete(path))).toEqual(refused('NOT_EMPTY'))
      const below = client.create(`${path}/child/below`, NOTHING)
      expect(await codeOfFailure(below)).toEqual(refused('NO_CHILDREN_FOR_EPHEMERALS'))
      await expect(client.delete(path)).rejects.toMatchObject({ path, name: 'ZooKeeperError' })
    })

    it('refuses what is no path before anything is sent', async () => {
      const client = await open()
      for (const path of [
        '',
        'a',
        '/a/',
        '//',
        '/a//b',
        '/a/./b',
        '/..',
        '/a\0',
        '/a\u001fb',
        '/\ud83d\ude00',
      ]) {
        const refused = { code: 'BAD_ARGUMENTS', wasSent: false }
        expect(await codeOfFailure(client.create(path, NOTHING)), path).toEqual(refused)
        expect(await codeOfFailure(client.exists(path)), path).toEqual(refused)
      }
      expect(await codeOfFailure(client.delete('/a', 2 ** 40))).toMatchObject({ code: 'BAD_ARGUMENTS' })
      expect(client.state).toBe('connected')
    })

    it('takes names in other scripts', async () => {
      const client = await open()
      const path = freshPath()
      await client.create(path, NOTHING)
      const names = ['größe', 'замок', '鍵', 'with space', 'قفل', '{a}:%2f?']
      for (const name of names) await client.create(`${path}/${name}`, Buffer.from(name))
      expect([...(await client.children(path)).names].sort()).toEqual([...names].sort())
      for (const name of names) {
        expect((await client.getData(`${path}/${name}`)).data.toString()).toBe(name)
      }
    })

    it('makes nodes of every kind', async () => {
      const client = await open()
      const path = freshPath()
      await client.create(path, NOTHING, { mode: 'container' })
      const sequential = { mode: 'persistent-sequential' } as const
      const first = await client.create(`${path}/n-`, NOTHING, sequential)
      const second = await client.create(`${path}/`, NOTHING, sequential)
      expect([first.path, second.path]).toEqual([`${path}/n-0000000000`, `${path}/0000000001`])
      const mine = await client.create(`${path}/e-`, NOTHING, { mode: 'ephemeral-sequential' })
      expect(mine.path).toBe(`${path}/e-0000000002`)
      expect(mine.stat.ephemeralOwner).toBe(client.sessionId)
      for (const each of [first, second, mine]) await client.delete(each.path)
      // A container that has had children goes away by itself.
      await until('the container is gone', async () => (await client.exists(path)) === null)
    })

    it('removes ephemeral nodes with the session that is closed', async () => {
      const [client, other] = [await open(), await open()]
      const path = freshPath()
      await client.create(path, NOTHING, { mode: 'ephemeral' })
      const { listener, seen } = remembering()
      expect((await other.exists(path, listener))?.ephemeralOwner).toBe(client.sessionId)
      await Promise.all([client.close(), client.close()])
      expect(client.state).toBe('closed')
      await until('the watch has fired', () => seen.length > 0)
      expect(seen).toEqual([`deleted ${path}`])
      expect(await codeOfFailure(client.exists(path))).toEqual({ code: 'CLOSED', wasSent: false })
    })

    it('answers in the order of the calls, ten thousand at a time', async () => {
      const client = await open({ sessionMs: 30_000 })
      const path = freshPath()
      await client.create(path, NOTHING)
      const order: number[] = []
      const writes = Array.from({ length: 10_000 }, async (_, index) => {
        const stat = await client.setData(path, Buffer.from(String(index)))
        order.push(index)
        return stat.version
      })
      const last = client.getData(path)
      expect(await Promise.all(writes)).toEqual(Array.from({ length: 10_000 }, (_, index) => index + 1))
      expect(order).toEqual([...order].sort((one, other) => one - other))
      expect((await last).data.toString()).toBe('9999')
    })

    it('reads behind a sync in one go', async () => {
      const client = await open()
      const path = freshPath()
      await client.create(path, NOTHING)
      const [, listed] = await Promise.all([
        client.create(`${path}/a`, NOTHING),
        Promise.all([client.sync(path), client.children(path)]),
      ])
      expect(listed[1].names).toEqual(['a'])
      expect(listed[1].stat.numChildren).toBe(1)
    })

    it('carries large data, and refuses too large data before it is sent', async () => {
      const client = await open()
      const path = freshPath()
      const data = Buffer.alloc(1_000_000, 'x')
      await client.create(path, data)
      expect((await client.getData(path)).data.equals(data)).toBe(true)
      const tooLarge = await codeOfFailure(client.setData(path, Buffer.alloc(5_000_000)))
      expect(tooLarge).toEqual({ code: 'BAD_ARGUMENTS', wasSent: false })
      const small = await open({ frameBytesMax: 10_000 })
      // An answer over the limit ends the connection, and the next one works.
      expect((await codeOfFailure(small.getData(path))).code).toBe('PROTOCOL')
      await until('it is connected again', () => small.state === 'connected')
      expect((await small.exists(path))?.dataLength).toBe(1_000_000)
    })

    it('lists very many children', async () => {
      const client = await open({ sessionMs: 30_000 })
      const path = freshPath()
      await client.create(path, NOTHING)
      const made = Array.from({ length: 3_000 }, (_, index) => client.create(`${path}/${index}`, NOTHING))
      await Promise.all(made)
      expect((await client.children(path)).names.length).toBe(3_000)
    })

    describe('multi', () => {
      it('does all', async () => {
        const client = await open()
        const path = freshPath()
        const results = await client.multi([
          { type: 'create', path, data: Buffer.from('a') },
          { type: 'create', path: `${path}/s-`, data: NOTHING, mode: 'ephemeral-sequential' },
          { type: 'check', path, version: 0 },
          { type: 'setData', path, data: Buffer.from('bc'), version: 0 },
          { type: 'delete', path: `${path}/s-0000000000` },
        ])
        expect(results).toMatchObject([
          { type: 'create', path },
          { type: 'create', path: `${path}/s-0000000000` },
          { type: 'check' },
          { type: 'setData', stat: { version: 1, dataLength: 2 } },
          { type: 'delete' },
        ])
        expect(await client.multi([])).toEqual([])
      })

      it('does nothing if one fails, and says which', async () => {
        const client = await open()
        const path = freshPath()
        const failed = client.multi([
          { type: 'create', path, data: NOTHING },
          { type: 'check', path: '/', version: 99 },
          { type: 'delete', path },
        ])
        await expect(failed).rejects.toMatchObject({
          code: 'BAD_VERSION',
          index: 1,
          path: '/',
          wasSent: true,
        })
        expect(await client.exists(path)).toBe(null)
      })
    })

    describe('watches', () => {
      it('fire once, for what happened', async () => {
        const [client, other] = [await open(), await open()]
        const path = freshPath()
        const watch = {
          created: remembering(),
          data: remembering(),
          children: remembering(),
          gone: remembering(),
        }
        expect(await client.exists(path, watch.created.listener)).toBe(null)
        await other.create(path, NOTHING)
        await until('creation is seen', () => watch.created.seen.length > 0)
        await client.getData(path, watch.data.listener)
        await client.children(path, watch.children.listener)
        await client.exists(path, watch.gone.listener)
        await other.setData(path, Buffer.from('x'))
        await other.setData(path, Buffer.from('y'))
        await other.create(`${path}/c`, NOTHING)
        await other.delete(`${path}/c`)
        await other.delete(path)
        await client.sync(path)
        await client.exists(path)
        expect(watch.created.seen).toEqual([`created ${path}`])
        expect(watch.data.seen).toEqual([`changed ${path}`])
        expect(watch.gone.seen).toEqual([`changed ${path}`])
        expect(watch.children.seen).toEqual([`children ${path}`])
      })

      it('are not left by a refused read', async () => {
        const client = await open()
        const path = freshPath()
        const [refused, asked] = [remembering(), remembering()]
        await codeOfFailure(client.getData(path, refused.listener))
        await codeOfFailure(client.children(path, refused.listener))
        // The server tells of the path because of this one.
        await client.exists(path, asked.listener)
        await client.create(path, NOTHING)
        await client.exists(path, asked.listener)
        await client.delete(path)
        await client.exists(path)
        expect([refused.seen, asked.seen]).toEqual([[], [`created ${path}`, `deleted ${path}`]])
      })

      it('are forgotten on demand, and the others go on', async () => {
        const client = await open()
        const path = freshPath()
        const [one, other] = [remembering(), remembering()]
        await client.exists(path, one.listener)
        await client.exists(path, other.listener)
        client.unwatch(path, one.listener)
        await client.create(path, NOTHING)
        await client.exists(path)
        expect([one.seen, other.seen]).toEqual([[], [`created ${path}`]])
      })

      it('that throw hurt nobody', async () => {
        const client = await open()
        const path = freshPath()
        const warnings: string[] = []
        const remember = (warning: Error) => void warnings.push(warning.message)
        process.on('warning', remember)
        const { listener, seen } = remembering()
        const throwing = () => {
          throw new Error('a listener that throws')
        }
        await client.exists(path, throwing)
        await client.exists(path, listener)
        await client.create(path, NOTHING)
        expect((await client.exists(path))?.version).toBe(0)
        await sleep(0)
        process.off('warning', remember)
        expect(seen).toEqual([`created ${path}`])
        expect(warnings).toEqual(['a listener that throws'])
      })

      it('are told when the session is closed', async () => {
        const client = await open()
        const path = freshPath()
        const { listener, seen } = remembering()
        await client.exists(path, listener)
        await client.close()
        expect(seen).toEqual([`none ${path}`])
      })
    })

    it('sees only its part of the tree with a chroot', async () => {
      const plain = await open()
      const root = freshPath()
      await plain.create(root, Buffer.from('root'))
      const client = await open({ chroot: root })
      const { listener, seen } = remembering()
      await client.children('/', listener)
      expect((await client.create('/a', NOTHING)).path).toBe('/a')
      expect((await client.create('/a/s-', NOTHING, { mode: 'ephemeral-sequential' })).path).toBe(
        '/a/s-0000000000',
      )
      expect((await plain.children(`${root}/a`)).names).toEqual(['s-0000000000'])
      expect((await client.getData('/')).data.toString()).toBe('root')
      expect(await client.multi([{ type: 'create', path: '/m', data: NOTHING }])).toMatchObject([
        { path: '/m' },
      ])
      await client.sync('/')
      expect(seen).toEqual(['children /'])
      await expect(client.delete('/none')).rejects.toMatchObject({ path: '/none' })
    })

    it('keeps strangers out with an access list', async () => {
      const [client, stranger] = [
        await open({ auth: [{ scheme: 'digest', credential: 'user:secret' }] }),
        await open(),
      ]
      const path = freshPath()
      await client.create(path, Buffer.from('mine'), { acl: CREATOR_ACL })
      expect(await codeOfFailure(stranger.getData(path))).toEqual({ code: 'NO_AUTH', wasSent: true })
      await expect(stranger.getData(path)).rejects.not.toThrow('secret')
      expect((await client.getData(path)).data.toString()).toBe('mine')
      const { acl } = await client.getAcl(path)
      expect(acl).toMatchObject([{ perms: PERMISSION.all, scheme: 'digest' }])
      await client.setAcl(path, [...acl, { perms: PERMISSION.read, scheme: 'world', id: 'anyone' }])
      expect((await stranger.getData(path)).data.toString()).toBe('mine')
      expect(await codeOfFailure(stranger.setData(path, NOTHING))).toMatchObject({ code: 'NO_AUTH' })
      await stranger.addAuth('digest', 'user:secret')
      expect((await stranger.setData(path, NOTHING)).version).toBe(1)
      expect(await codeOfFailure(stranger.create(freshPath(), NOTHING, { acl: [] }))).toMatchObject({
        code: 'INVALID_ACL',
      })
    })

    it('refuses credentials that the server does not know, for good', async () => {
      const auth = [{ scheme: 'no-such-scheme', credential: 'a:b' }]
      expect(await codeOfFailure(open({ auth }))).toMatchObject({ code: 'AUTH_FAILED' })
      const client = await open()
      const { listener, seen } = remembering()
      await client.exists(freshPath(), listener)
      expect(await codeOfFailure(client.addAuth('no-such-scheme', 'a:b'))).toMatchObject({
        code: 'AUTH_FAILED',
      })
      expect(client.state).toBe('expired')
      expect(seen.length).toBe(1)
      expect(await codeOfFailure(client.exists('/'))).toEqual({ code: 'AUTH_FAILED', wasSent: false })
    })

    it('refuses options that make no sense', async () => {
      const bad: Array<Partial<ZooKeeperOptions>> = [
        { hosts: [] },
        { hosts: [{ host: '127.0.0.1', port: 0 }] },
        { sessionMs: 0 },
        { sessionMs: Number.NaN },
        { chroot: 'a' },
        { tls: { ca: '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----', cert: 'no' } },
      ]
      for (const options of bad) {
        expect(await codeOfFailure(open(options))).toEqual({ code: 'BAD_ARGUMENTS', wasSent: false })
      }
    })
  },
)
