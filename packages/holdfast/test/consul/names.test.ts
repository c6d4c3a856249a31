import { describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { Keys } from '../../src/backends/consul/keys.js'
import { InvalidInputError } from '../../src/core/errors.js'
import { connectTo, isMissing, keysOf, QUICK, serverOfFile, whyMissing } from './support.js'

const server = serverOfFile()

const ODD: readonly string[] = [
  'a/b',
  'a',
  'a/b/c',
  '..',
  '.',
  '../escape',
  '%2f',
  '%2e%2e/x',
  'two words',
  'query?recurse',
  'fragment#x',
  'a&b=c',
  '.lock',
  'a/.lock',
  'ключ',
  '"quoted"',
  'x'.repeat(512),
  'ж'.repeat(256),
]

describe('names as keys', () => {
  it('are where `consul lock` looks for them', () => {
    expect(new Keys('', false).of('orders').mutex).toBe('orders/.lock')
    expect(new Keys('apps/locks/', false).of('orders').mutex).toBe('apps/locks/orders/.lock')
    expect(new Keys('', true).of('service/db/leader').mutex).toBe('service/db/leader')
  })

  it('never meet, never leave the prefix, and fit', () => {
    const keys = new Keys('apps', false)
    const all = ODD.map((name) => keys.of(name))
    expect(new Set(all.map(({ mutex }) => mutex)).size).toBe(ODD.length)
    for (const { mutex, folder, resource, isHashed } of all) {
      expect(mutex).toMatch(/^apps\/[A-Za-z0-9._%~-]+\/\.lock$/)
      expect(Buffer.byteLength(folder) + 36).toBeLessThanOrEqual(512)
      if (!isHashed) expect(keys.resourceOf(mutex)).toBe(resource)
    }
  })

  it('refuse a prefix and an exact key that mean something else', () => {
    for (const prefix of ['a//b', '../a', 'a/./b', 'a\nb', 'x'.repeat(500)]) {
      expect(() => new Keys(prefix, false)).toThrow(InvalidInputError)
    }
    for (const name of ['a//b', '../a', '/a', 'a/', '.', 'x'.repeat(500)]) {
      expect(() => new Keys('', true).of(name)).toThrow(InvalidInputError)
    }
    expect(() => new Keys('a', true)).toThrow(InvalidInputError)
  })
})

describe.skipIf(isMissing)(titled('names at the agent', whyMissing), () => {
  it('are all held at once, listed as they are, and leave nothing', async () => {
    const consul = await server()
    const url = `${consul.url}/odd?${QUICK}`
    const [a, b] = [await connectTo(url), await connectTo(url)]
    const holds = await Promise.all(ODD.map((name) => a.mutex(name).acquire({ waitMs: 0 })))
    for (const name of ODD) expect(await b.mutex(name).tryAcquire()).toBe(null)
    const listed: string[] = []
    for await (const { resource } of b.list()) listed.push(resource)
    expect(listed.toSorted()).toEqual([...ODD].toSorted())
    const everything = (await keysOf(consul)).map(({ Key }) => Key)
    expect(everything.filter((key) => !key.startsWith('odd/'))).toEqual([])
    await Promise.all(holds.map((hold) => hold.release()))
    expect(await keysOf(consul)).toEqual([])
  })

  it('hold permits under odd names, too', async () => {
    const consul = await server()
    const url = `${consul.url}/pools?${QUICK}`
    const [a, b] = [await connectTo(url), await connectTo(url)]
    for (const name of ODD) {
      const one = await a.semaphore(name, 2).acquire({ waitMs: 0 })
      const two = await b.semaphore(name, 2).acquire({ waitMs: 0 })
      expect(await b.semaphore(name, 2).tryAcquire()).toBe(null)
      expect((await a.inspect(name)).holders.length).toBe(2)
      await Promise.all([one.release(), two.release()])
    }
    expect(await keysOf(consul)).toEqual([])
  })

  it('that are exact keys meet what other programs lock', async () => {
    const consul = await server()
    const locks = await connectTo(`${consul.url}?exactPath=true&${QUICK}`)
    const { text } = await consul.request('PUT', '/v1/session/create', {
      body: '{"TTL":"20s","NodeChecks":[]}',
    })
    const { ID } = JSON.parse(text) as { ID: string }
    const path = '/v1/kv/service/db/leader'
    const flags = `flags=${0x2ddccbc058a50c18n}`
    expect((await consul.request('PUT', `${path}?acquire=${ID}&${flags}`)).text).toContain('true')
    expect(await locks.mutex('service/db/leader').tryAcquire()).toBe(null)
    await consul.request('PUT', `${path}?release=${ID}&${flags}`)
    const hold = await locks.mutex('service/db/leader').acquire({ waitMs: 5_000 })
    expect((await consul.request('PUT', `${path}?acquire=${ID}&${flags}`)).text).toContain('false')
    await hold.release()
    await consul.request('PUT', `/v1/session/destroy/${ID}`)
  })

  it('never write over what is no lock', async () => {
    const consul = await server()
    const locks = await connectTo(`${consul.url}?exactPath=true&${QUICK}`)
    await consul.request('PUT', '/v1/kv/config/database', { body: 'precious' })
    await expect(locks.mutex('config/database').tryAcquire()).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    const [key] = await keysOf(consul, 'config/')
    expect(Buffer.from(key?.Value ?? '', 'base64').toString()).toBe('precious')
    await consul.request('DELETE', '/v1/kv/config/database')
  })

  it('believe no value that others have written', async () => {
    const consul = await server()
    const locks = await connectTo(`${consul.url}/lies?${QUICK}`)
    await using _hold = await locks.mutex('told').acquire()
    const [key] = await keysOf(consul, 'lies/')
    const lies = [
      '',
      'null',
      '[]',
      '{"who":[1,2,3]}',
      '{"who":["h",1,"c"],"since":"x"}',
      '\u0000\u001b',
      '{'.repeat(999),
    ]
    for (const body of lies) {
      await consul.request('PUT', `/v1/kv/${key?.Key}?flags=${0x2ddccbc058a50c18n}`, { body })
      const { holders } = await locks.inspect('told')
      expect(holders.length).toBe(1)
      expect(holders[0]?.ageMs).toBe(0)
    }
    // It is still ours, though somebody has written into it, and is given back whole.
  })
})
