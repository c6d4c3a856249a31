/** Where names lead, which recipe they belong to, and who is let in. */

import { startZookeeper, type ZookeeperServer } from 'holdfast-servers'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import type { ZooKeeper } from '../../src/backends/zookeeper/wire/zookeeper.js'
import type { Locks } from '../../src/client/client.js'
import { InvalidInputError, UnsupportedError } from '../../src/core/errors.js'
import { clientOf, freshBase, isMissing, locksAt, whyMissing } from './support.js'

const ODD = [
  'a',
  'a/b',
  'a%2Fb',
  'a%2fb',
  '..',
  '.',
  '../a',
  'a b',
  ' a',
  '%',
  'é',
  '日本',
  'lock',
  'a/..',
  '%2E%2E',
  '/a',
  '/',
]

let server: ZookeeperServer
let direct: ZooKeeper
let base: string
let clients: Locks[]
beforeAll(async () => {
  if (isMissing) return
  server = await startZookeeper()
  direct = await clientOf(server.port)
})
afterAll(async () => {
  await direct?.close()
  await server?.dispose()
})
beforeEach(() => {
  base = freshBase()
  clients = []
})
afterEach(async () => {
  await Promise.all(clients.map((locks) => locks.close()))
})

async function client(options = '', path = `${base}/locks`, url = server.url): Promise<Locks> {
  const locks = await locksAt(`${url}${path}?sessionMs=6000${options}`)
  clients.push(locks)
  return locks
}

describe.skipIf(isMissing).each(['sequential', 'ephemeral'])(
  titled('names of `%s`', whyMissing),
  (recipe) => {
    it('never meet, never block each other, and stay below the base', async () => {
      const locks = await client(`&recipe=${recipe}`)
      const other = await client(`&recipe=${recipe}`)
      const holds = await Promise.all(ODD.map((name) => locks.mutex(name).acquire({ waitMs: 10_000 })))
      for (const hold of holds) hold.assertHeld()
      for (const name of ODD) expect(await other.mutex(name).tryAcquire()).toBeNull()
      expect((await direct.children(base)).names).toEqual(['locks'])
      const { names } = await direct.children(`${base}/locks`)
      expect(names.length).toBe(ODD.length)
      for (const name of names) expect(name).toMatch(/^[A-Za-z0-9._%-]+$/)
      await Promise.all(holds.map((hold) => hold.release()))
    })

    it.each(['a\r\nb', 'a\0b', '\ud800', ''])('do not include %o', async (name) => {
      const locks = await client(`&recipe=${recipe}`)
      expect(() => locks.mutex(name)).toThrow(InvalidInputError)
    })

    it('can be whole paths', async () => {
      const exact = await client(`&recipe=${recipe}&exactPath=true`, '')
      const below = await client(`&recipe=${recipe}`)
      await using hold = await exact.mutex(`${base}/locks/orders`).acquire()
      hold.assertHeld()
      expect(await below.mutex('orders').tryAcquire()).toBeNull()
      await expect(exact.mutex('orders').acquire()).rejects.toThrow(InvalidInputError)
      await expect(exact.mutex(`${base}/../x`).acquire()).rejects.toThrow(InvalidInputError)
    })
  },
)

describe.skipIf(isMissing)(titled('a name', whyMissing), () => {
  it('belongs to one recipe at a time', async () => {
    const line = await client()
    const single = await client('&recipe=ephemeral')
    const first = await line.mutex('orders').acquire()
    await expect(single.mutex('orders').acquire()).rejects.toThrow(UnsupportedError)
    first.assertHeld()
    await first.release()
    const second = await single.mutex('orders').acquire()
    await expect(line.mutex('orders').acquire()).rejects.toThrow(UnsupportedError)
    second.assertHeld()
    await second.release()
    expect((await direct.children(`${base}/locks/orders`)).names).toEqual([])
  })

  it('is given up by its owner only, even if somebody else removed it and took it', async () => {
    const a = await client('&recipe=ephemeral')
    const b = await client('&recipe=ephemeral')
    const first = await a.mutex('orders').acquire()
    await direct.delete(`${base}/locks/orders/lock`)
    await using second = await b.mutex('orders').acquire({ waitMs: 10_000 })
    expect(await first.release()).not.toBe('released')
    expect(await a.mutex('orders').tryAcquire()).toBeNull()
    second.assertHeld()
  })
})

describe.skipIf(isMissing)(titled('who is let in', whyMissing), () => {
  it('is decided by the access list, if there is one', async () => {
    const withUser = server.url.replace('//', '//user:pass%20word@')
    const owner = await client('&acl=creator', `${base}/locks`, withUser)
    await using hold = await owner.mutex('orders').acquire()
    hold.assertHeld()
    const stranger = await client()
    await expect(stranger.mutex('orders').tryAcquire()).rejects.toThrow(UnsupportedError)
    const friend = await client('&acl=creator', `${base}/locks`, withUser)
    expect(await friend.mutex('orders').tryAcquire()).toBeNull()
  })

  it('must be asked for with a user', async () => {
    await expect(client('&acl=creator')).rejects.toThrow(InvalidInputError)
    await expect(client('&acl=everybody')).rejects.toThrow(InvalidInputError)
    await expect(client('&recipe=line')).rejects.toThrow(InvalidInputError)
    await expect(client('', '/a//b')).rejects.toThrow(InvalidInputError)
    await expect(client('', base, server.url.replace('//', '//user@'))).rejects.toThrow(InvalidInputError)
  })

  it('may come over TLS', async () => {
    const secure = await startZookeeper({ tls: true })
    try {
      const locks = await client(
        `&ca=${encodeURIComponent(secure.ca as string)}`,
        `${base}/locks`,
        secure.url,
      )
      await using hold = await locks.mutex('orders').acquire()
      hold.assertHeld()
      await locks.close()
      clients = []
      await expect(client('&ca=/nowhere', base, secure.url)).rejects.toThrow(UnsupportedError)
      await expect(client('&ca=/nowhere')).rejects.toThrow(InvalidInputError)
    } finally {
      await secure.dispose()
    }
  })
})
