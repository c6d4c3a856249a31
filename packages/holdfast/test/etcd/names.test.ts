import fc from 'fast-check'
import { type EtcdServer, missingPrograms, missingReason, startEtcd } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { parseEtcdUrl } from '../../src/backends/etcd/address.js'
import { beginning, Layout } from '../../src/backends/etcd/layout.js'
import { lineOptionsOf, openEtcd } from '../../src/backends/etcd/open.js'
import { readRecord, writeRecord } from '../../src/backends/etcd/record.js'
import { LIMIT_MAX } from '../../src/core/line.js'
import { refOf } from '../../src/core/names.js'
import { watchForStrays } from '../support/strays.js'
import { locksAt, locksOver, rejection } from './support.js'

const missing = missingPrograms(['etcd'])

watchForStrays()

const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 30 })

describe('where claims are', () => {
  const encoded = new Layout({ prefix: 'app/', exactPath: false })
  const exact = new Layout({ prefix: '', exactPath: true })

  test('a name comes back from its key', () => {
    fc.assert(
      fc.property(name, fc.bigInt(1n, 2n ** 63n), (resource, lease) => {
        expect(encoded.nameOf(encoded.keyOf(resource, lease, 0))).toBe(resource)
        expect(exact.nameOf(exact.keyOf(resource, lease, 3))).toBe(resource)
      }),
    )
  })

  test('no name reaches into the line of another', () => {
    fc.assert(
      fc.property(name, name, (one, other) => {
        fc.pre(one !== other)
        const { key, rangeEnd } = encoded.lineOf(one)
        const foreign = encoded.keyOf(other, 7n, 1)
        expect(Buffer.compare(foreign, key) >= 0 && Buffer.compare(foreign, rangeEnd) < 0).toBe(false)
      }),
    )
  })

  test('names are found by how they begin', () => {
    fc.assert(
      fc.property(name, fc.nat(30), (resource, length) => {
        const prefix = Array.from(resource).slice(0, length).join('')
        const { key, rangeEnd } = encoded.namesFrom(prefix)
        const own = encoded.keyOf(resource, 7n, 0)
        expect(Buffer.compare(own, key)).toBeGreaterThanOrEqual(0)
        expect(Buffer.compare(own, rangeEnd)).toBeLessThan(0)
      }),
    )
    // `.` itself is written as `%2E`, and `.lock` as it is.
    expect(encoded.namesFrom('.').key.toString()).toBe('app/')
    expect(encoded.namesFrom('.l').key.toString()).toBe('app/.l')
  })

  test('the end of a range is right for every beginning', () => {
    expect(beginning(Buffer.from('a/'))).toEqual({ key: Buffer.from('a/'), rangeEnd: Buffer.from('a0') })
    expect(beginning(Buffer.of(0x61, 0xff))).toEqual({
      key: Buffer.of(0x61, 0xff),
      rangeEnd: Buffer.of(0x62),
    })
    expect(beginning(Buffer.of(0xff)).rangeEnd).toEqual(Buffer.of(0))
    expect(beginning(Buffer.alloc(0))).toEqual({ key: Buffer.of(0), rangeEnd: Buffer.of(0) })
  })

  test('keys of others are names of nothing', () => {
    expect(encoded.nameOf(Buffer.from('elsewhere/x/y'))).toBeNull()
    expect(encoded.nameOf(Buffer.from('app/no-slash'))).toBeNull()
    expect(encoded.nameOf(Buffer.from('app//y'))).toBeNull()
    expect(encoded.nameOf(Buffer.from('app/not encoded/y'))).toBeNull()
    expect(
      encoded.nameOf(Buffer.concat([Buffer.from('app/'), Buffer.of(0xff), Buffer.from('/y')])),
    ).toBeNull()
  })
})

describe('what a claim says of itself', () => {
  const owner = { host: 'h', pid: 7, client: 'c' }

  test('is read again', () => {
    const shapes = fc.constantFrom(
      { kind: 'mutex', limit: 1 } as const,
      { kind: 'semaphore', limit: 9 } as const,
      { kind: 'read-write', limit: LIMIT_MAX } as const,
    )
    fc.assert(
      fc.property(shapes, fc.option(name), (shape, note) => {
        const claim = { id: 'i', resource: 'r', shape, weight: 1, ttlMs: 1, owner, note }
        const read = readRecord(writeRecord(claim, 1_234.5))
        expect(read.digest?.startsWith(refOf('i'))).toBe(true)
        expect(read).toMatchObject({ shape, weight: 1, who: { owner, note }, madeAtMs: 1_235 })
      }),
    )
  })

  test('whatever else is there counts as an exclusive lock', () => {
    const plain = { shape: { kind: 'mutex', limit: 1 }, weight: 1 }
    const odd = ['', '{', 'null', '7', '[]', '{"kind":"mutex"}', '{"kind":"x","limit":1,"weight":1}']
    const wrong = ['{"kind":"semaphore","limit":0,"weight":1}', '{"kind":"semaphore","limit":2,"weight":3}']
    const huge = `{"kind":"semaphore","limit":9,"weight":1,"x":"${'y'.repeat(20_000)}"}`
    for (const text of [...odd, ...wrong, huge]) expect(readRecord(Buffer.from(text))).toMatchObject(plain)
    fc.assert(
      fc.property(fc.uint8Array(), fc.json(), (array, json) => {
        readRecord(Buffer.from(array))
        readRecord(Buffer.from(json))
      }),
    )
    const strange = Buffer.from('{"kind":"semaphore","limit":3,"weight":2,"who":{"a":1},"at":"now"}')
    expect(readRecord(strange)).toEqual({
      digest: null,
      shape: { kind: 'semaphore', limit: 3 },
      weight: 2,
      who: null,
      madeAtMs: null,
    })
  })
})

describe('URLs', () => {
  test('are taken apart', () => {
    const address = parseEtcdUrl('etcds://me:p%40ss@h1:1,[::1],h3/apps/locks?exactPath=true')
    expect(address).toMatchObject({
      tls: true,
      username: 'me',
      password: 'p@ss',
      endpoints: ['h1:1', '[::1]:2379', 'h3:2379'],
      prefix: 'apps/locks/',
    })
    expect(lineOptionsOf(address)).toEqual({ exactPath: true, prefix: 'apps/locks/' })
    expect(lineOptionsOf(parseEtcdUrl('etcd://h?prefix=/x/'))).toEqual({ prefix: '/x/' })
    expect(lineOptionsOf(parseEtcdUrl('etcd://h'))).toEqual({})
  })

  test.each([
    'etcd:h',
    'http://h',
    'etcd://h:0',
    'etcd://h/a//b',
    'etcd://h/../b',
    'etcd://h/x?prefix=y',
    'etcd://h?prefx=y',
    'etcd://h?exactPath=maybe',
    'etcd://h?versionWarning=maybe',
    'etcd://h?cert=x',
  ])('%s is refused', async (url) => {
    expect(await rejection(openEtcd(url))).toMatchObject({ code: 'INVALID_INPUT' })
  })
})

describe.skipIf(missing.length > 0)(
  titled('on a server', missing.length > 0 ? missingReason(missing) : null),
  () => {
    let server: EtcdServer
    beforeAll(async () => {
      server = await startEtcd()
    })
    afterAll(() => server.dispose())

    test('plain names are keys as they are, and odd ones stay in their place', async () => {
      const locks = await locksAt(`${server.url}/apps/locks`)
      const names = ['orders', 'a/b', 'a', 'ключ 1', '..', '%', 'a%2Fb']
      const holds = await Promise.all(names.map((each) => locks.mutex(each).acquire()))
      const keys = await server.keys('')
      expect(keys).toHaveLength(names.length)
      expect(keys.filter((key) => /^apps\/locks\/[^/]+\/[0-9a-f]+$/.test(key))).toHaveLength(names.length)
      expect(keys.some((key) => key.startsWith('apps/locks/orders/'))).toBe(true)
      const listed: string[] = []
      for await (const { resource } of locks.list()) listed.push(resource)
      expect(listed.toSorted()).toEqual(names.toSorted())
      const begun: string[] = []
      for await (const { resource } of locks.list('a')) begun.push(resource)
      expect(begun.toSorted()).toEqual(['a', 'a%2Fb', 'a/b'])
      for (const hold of holds) await hold.release()
      expect(await server.keys('')).toEqual([])
    })

    test('data that happens to begin alike is not listed, and a page more is', async () => {
      const locks = await locksAt(server.url)
      await server.request('/v3/kv/put', { key: Buffer.from('config/a').toString('base64') })
      const holds = await Promise.all(
        Array.from({ length: 600 }, (_, index) => locks.mutex(`n${index}`).acquire()),
      )
      const listed: string[] = []
      for await (const { resource } of locks.list()) listed.push(resource)
      expect(listed).toHaveLength(600)
      await Promise.all(holds.map((hold) => hold.release()))
    })

    test('a name that is locked again and again has one key, and several at once have a few', async () => {
      const locks = await locksAt(server.url)
      const seen = new Set<string>()
      for (let round = 0; round < 20; round += 1) {
        await using _hold = await locks.mutex('again').acquire()
        for (const key of await server.keys('again/')) seen.add(key)
      }
      expect(seen.size).toBe(1)
      for (let round = 0; round < 3; round += 1) {
        const semaphore = locks.semaphore('some', 5)
        const holds = await Promise.all([2, 1, 1, 1].map((permits) => semaphore.acquire({ permits })))
        for (const key of await server.keys('some/')) seen.add(key)
        await Promise.all(holds.map((hold) => hold.release()))
      }
      expect(seen.size).toBeLessThanOrEqual(5)
      expect(seen.size).toBeGreaterThan(2)
    })

    test('exact names nest as those of etcdctl do', async () => {
      const locks = await locksOver(await openEtcd(`${server.url}?exactPath=true&versionWarning=false`))
      await using _inner = await locks.mutex('outer/inner').acquire()
      expect(await locks.mutex('outer').tryAcquire()).toBeNull()
      expect(await server.keys('outer/inner/')).toHaveLength(1)
    })
  },
)
