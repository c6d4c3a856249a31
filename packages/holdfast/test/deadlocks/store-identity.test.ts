/** Which clients share an order of names: those of one store, and not those of another of the same kind. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { parseConsulUrl } from '../../src/backends/consul/address.js'
import { parseEtcdUrl } from '../../src/backends/etcd/address.js'
import { parseServiceUrl } from '../../src/backends/http/address.js'
import { parseMemcachedUrl } from '../../src/backends/memcached/address.js'
import { memoryBackend, memoryStore } from '../../src/backends/memory/backend.js'
import { MYSQL_SCHEME } from '../../src/backends/mysql/open.js'
import { POSTGRES_SCHEME } from '../../src/backends/postgres/open.js'
import { parseRedisUrl } from '../../src/backends/redis/address.js'
import { parseZookeeperUrl } from '../../src/backends/zookeeper/address.js'
import { DEFAULT_BASE } from '../../src/backends/zookeeper/backend.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import { connect, openBackend } from '../../src/connect/connect.js'
import { identityOfUrl } from '../../src/connect/identity.js'
import type { Backend } from '../../src/core/backend.js'
import { LockOrderError } from '../../src/core/errors.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { settle } from '../../src/testing/virtual-time.js'

const clients: Locks[] = []

afterEach(async () => {
  await Promise.all(clients.splice(0).map((locks) => locks.close()))
})

async function at(url: string): Promise<Locks> {
  const locks = await connect(url, { lockOrder: 'throw' })
  clients.push(locks)
  return locks
}

async function over(backend: Backend): Promise<Locks> {
  const locks = await createLocks(backend, { lockOrder: 'throw' })
  clients.push(locks)
  return locks
}

/** What is known of orders is one for the whole process, so each test has names of its own. */
let tests = 0

/** Takes two names in one order with the one, and in the other with the other. */
async function cross(one: Locks, two: Locks): Promise<'shared' | 'apart'> {
  tests += 1
  const [a, b] = [`${tests}:a`, `${tests}:b`]
  await one.mutex(a).run(() => one.mutex(b).run(() => {}))
  try {
    await two.mutex(b).run(() => two.mutex(a).run(() => {}))
    return 'apart'
  } catch (error) {
    expect(error).toBeInstanceOf(LockOrderError)
    expect(error).toMatchObject({ backend: two.backend })
    return 'shared'
  }
}

describe('an order', () => {
  it('is shared by the clients of one store, and not with those of another of its kind', async () => {
    expect(await cross(await at('memory:s1'), await at('memory:s2'))).toBe('apart')
    expect(await cross(await at('memory:s1'), await at('memory:s1'))).toBe('shared')
    expect(await cross(await at('memory:'), await at('memory:'))).toBe('apart')
    const own = await at('memory:')
    expect(await cross(own, own)).toBe('shared')
  })

  it('is told of to the clients of one name by a warning, with the kind of store and nothing else of it', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error): void => void warnings.push(warning)
    process.on('warning', onWarning)
    for (const name of ['s6', 's6', 's7', 's8']) {
      const locks = await connect(`memory:${name}`, { lockOrder: 'warn' })
      clients.push(locks)
    }
    const [one, two, three, four] = clients as [Locks, Locks, Locks, Locks]
    await one.mutex('warn:a').run(() => one.mutex('warn:b').run(() => {}))
    await three.mutex('warn:b').run(() => three.mutex('warn:a').run(() => {}))
    await four.mutex('warn:b').run(() => four.mutex('warn:a').run(() => {}))
    await settle()
    expect(warnings).toEqual([])
    await two.mutex('warn:b').run(() => two.mutex('warn:a').run(() => {}))
    await settle()
    process.off('warning', onWarning)
    expect(warnings).toMatchObject([{ code: 'HOLDFAST_LOCK_ORDER' }])
    expect(warnings[0]?.message).not.toMatch(/s6|memory/)
  })

  it('is that of the file, whatever its URL looks like', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-identity-'))
    const file = join(folder, 'locks.db')
    expect(await cross(await at(`sqlite:${file}`), await at(`sqlite://${folder}/./locks.db`))).toBe('shared')
    expect(await cross(await at(`sqlite:${file}`), await at(`sqlite:${file}2`))).toBe('apart')
    await Promise.all(clients.splice(0).map((locks) => locks.close()))
    await rm(folder, { recursive: true })
  })

  it('is that of one backend where it was made by hand, unless it says more', async () => {
    class Named extends RelayBackend {
      readonly identity: string | object

      constructor(identity: string | object) {
        super(memoryBackend())
        this.identity = identity
      }
    }
    const relayed = (): Backend => new RelayBackend(memoryBackend(memoryStore('s3')))
    expect(await cross(await over(relayed()), await over(relayed()))).toBe('apart')
    const store = memoryStore('s3')
    expect(await cross(await over(memoryBackend(store)), await at('memory:s3'))).toBe('shared')
    expect(await cross(await over(new Named('here')), await over(new Named('here')))).toBe('shared')
    expect(await cross(await over(new Named('here')), await over(new Named('there')))).toBe('apart')
    expect(await cross(await over(new Named('1')), await over(memoryBackend()))).toBe('apart')
    const nothing = null as unknown as string
    expect(await cross(await over(new Named(nothing)), await over(new Named(nothing)))).toBe('apart')
  })

  it('goes from one store to another', async () => {
    const [one, two] = [await at('memory:s4'), await at('memory:s5')]
    await one.mutex('a').run(() => two.mutex('a').run(() => {}))
    await expect(two.mutex('a').run(() => one.mutex('a').run(() => {}))).rejects.toThrow(LockOrderError)
  })
})

describe('the identity of a URL', () => {
  it.each([
    ['redis://cache', 'redis://:secret@CACHE:6379/0?driver=redis'],
    ['redis://cache', 'rediss://cache/'],
    ['redis+cluster://a,b:7000', 'redis+cluster://b:7000,a:6379'],
    ['redis+sentinel://a,b/main', 'redis+sentinel://user:secret@b:26379,a:26379/main'],
    ['postgres://db', 'postgresql://me:secret@db:5432/postgres?max=3'],
    ['mysql://db/holdfast', 'mariadb://root@db:3306'],
    ['consul://agent?token=secret', 'consul://agent:8500/'],
    ['http://token@locks', 'https://locks:4600/?tokenFile=/secret'],
    ['zookeeper://z', 'zookeeper://user:secret@z:2181/holdfast'],
  ])('is the same for %s and %s', (one, two) => {
    expect(identityOfUrl(one)).toBe(identityOfUrl(two))
  })

  it.each([
    ['redis://cache', 'redis://cache2'],
    ['redis://cache', 'redis://cache:6380'],
    ['redis://cache/0', 'redis://cache/1'],
    ['redis://cache', 'redis+redlock://cache'],
    ['redis://cache', 'redis://cache?prefix=mine:'],
    ['redis://cache', 'redis://cache?recipe=set-nx'],
    ['redis+sentinel://a/main', 'redis+sentinel://a/other'],
    ['postgres://db/a', 'postgres://db/b'],
    ['postgres://db', 'mysql://db:5432/postgres'],
    ['postgres://db?tablePrefix=a_', 'postgres://db?tablePrefix=b_'],
    ['postgres://%2Frun%2Fa', 'postgres://%2Frun%2FA'],
    ['consul://agent/app', 'consul://agent/app/'],
    ['consul://agent?dc=east', 'consul://agent?dc=west'],
    ['etcd://a', 'etcd://a/prefix'],
    ['zookeeper://z', 'zookeeper://z/'],
    ['memcached://m', 'memcached://m:11212'],
    ['sqlite:one.db', 'sqlite:two.db'],
  ])('is another for %s and %s', (one, two) => {
    expect(identityOfUrl(one)).not.toBe(identityOfUrl(two))
  })

  it('knows the ports and paths that the stores take where a URL has none', () => {
    const same = (bare: string, full: string): void =>
      expect(identityOfUrl(full), full).toBe(identityOfUrl(bare))
    for (const [scheme, path] of [
      ['redis', ''],
      ['rediss', ''],
      ['redis+sentinel', '/main'],
      ['redis+cluster', ''],
      ['redis+redlock', ''],
    ] as const) {
      const [host] = parseRedisUrl(`${scheme}://h${path}`).hosts
      same(`${scheme}://h${path}`, `${scheme}://h:${host.port}${path}`)
    }
    same('redis://h', `redis://h/${parseRedisUrl('redis://h').database}`)
    for (const { schemes, port, database } of [POSTGRES_SCHEME, MYSQL_SCHEME]) {
      for (const scheme of schemes) same(`${scheme}://h`, `${scheme}://h:${port}/${database}`)
    }
    for (const scheme of ['zookeeper', 'zookeepers']) {
      const [host] = parseZookeeperUrl(`${scheme}://h`).hosts
      same(`${scheme}://h`, `${scheme}://h:${host.port}${DEFAULT_BASE}`)
    }
    same('consul://h', `consul://h:${parseConsulUrl('consul://h').hosts[0]?.port}`)
    same('consuls://h', `consuls://h:${parseConsulUrl('consuls://h').hosts[0]?.port}`)
    same('http://h', `http://h:${parseServiceUrl('http://h').hosts[0]?.port}`)
    same('https://h', `https://h:${parseServiceUrl('https://h').hosts[0]?.port}`)
    same('etcd://h', `etcd://${parseEtcdUrl('etcd://h').endpoints[0]}`)
    same('memcached://h', `memcached://h:${parseMemcachedUrl('memcached://h').port}`)
  })

  it('shows nothing, and is not printed with the backend that has it', async () => {
    expect(identityOfUrl('redis://user:secret@cache')).toMatch(/^[0-9a-f]{64}$/)
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-identity-'))
    const backend = await openBackend(`sqlite:${join(folder, 'locks.db')}`)
    const identity = backend.identity as string
    expect(identity).toMatch(/^[0-9a-f]{64}$/)
    expect(inspect(backend)).not.toContain(identity)
    expect(JSON.stringify(backend)).not.toContain(identity)
    await rm(folder, { recursive: true })
  })
})
