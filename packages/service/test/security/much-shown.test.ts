// @module-tag limits
import { randomBytes } from 'node:crypto'
import { openBackend } from 'holdfast/service'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { EventStream } from '../../src/watch/event-stream.js'
import { Watcher } from '../../src/watch/watcher.js'
import { listenTo } from '../watch/event-reader.js'
import { makeTokens, pathOf, type RunningService, startService } from './running-service.js'

/** What one token with many claims and long notes does to the answers that others get. */

const NOTE = '"'.repeat(1_024)
const HOLDERS = 400
const NAMES = 8

interface Shown {
  readonly name: string
  readonly holdersTotal: number
}

const { auth, token } = makeTokens({
  guest: [{ prefix: 'guest/', can: ['acquire', 'inspect'] }],
  ops: [{ prefix: '', can: ['acquire', 'inspect', 'break'] }],
})

describe('many claims with long notes', () => {
  const url = `memory:much-${randomBytes(6).toString('hex')}`
  let service: RunningService

  beforeAll(async () => {
    service = await startService({ url, auth })
    const backend = await openBackend(url)
    await backend.open({ granted() {}, wanted() {}, hint() {}, lost() {} })
    const shape = { kind: 'semaphore', limit: HOLDERS } as const
    const owner = { host: '"'.repeat(255), pid: 1, client: 'c' }
    for (let at = 0; at < HOLDERS * NAMES; at += 1) {
      const id = `id${String(at).padStart(30, '0')}`
      const claim = {
        id,
        resource: `guest/${at % NAMES}`,
        shape,
        weight: 1,
        ttlMs: 600_000,
        owner,
        note: NOTE,
      }
      expect((await backend.attempt(claim, { waitMs: 0, leaseMs: 1_000 })).kind).toBe('granted')
    }
  })

  afterAll(async () => {
    await service.close()
  })

  it('do not make the answer to a refused acquire large, which says how many hold', async () => {
    const body = { mode: 'semaphore', limit: HOLDERS }
    const refused = await service.post(pathOf('guest/0', 'acquire'), body, { token: token.guest })
    expect(refused.status).toBe(423)
    expect(refused.text.length).toBeLessThan(32 * 1_024)
    expect(refused.json['holdersTotal']).toBe(HOLDERS)
    expect((refused.json['holders'] as unknown[]).length).toBeGreaterThan(0)
  })

  it('are shown in part, with how many there are', async () => {
    const { text, json } = await service.get('/v1/locks', { token: token.ops })
    expect(text.length).toBeLessThan(NAMES * 96 * 1_024)
    for (const lock of json['locks'] as { holders: unknown[]; holdersTotal: number }[]) {
      expect(lock.holdersTotal).toBe(HOLDERS)
      expect(lock.holders.length).toBeGreaterThan(1)
      expect(lock.holders.length).toBeLessThan(HOLDERS)
    }
    const one = await service.get('/v1/locks/guest%2F0', { token: token.ops })
    expect(one.text.length).toBeLessThan(1_200 * 1_024)
    expect(one.json).toMatchObject({ holdersTotal: HOLDERS, waitersTotal: 0 })
  })

  it('reach listeners in messages of a bounded size', async () => {
    const reader = await listenTo(service.url, '/v1/events', token.ops)
    // The page begins with the last look, which may be from before the claims were made.
    const seen = await reader.until('all locks', () => {
      const shown = [...reader.of('snapshot'), ...reader.of('change')]
      const locks = shown.flatMap(({ locks = [], changed = [] }) => [locks, changed].flat() as Shown[])
      return new Set(locks.map(({ name }) => name)).size === NAMES ? { shown, locks } : undefined
    })
    reader.close()
    for (const event of seen.shown) expect(JSON.stringify(event).length).toBeLessThan(1_200 * 1_024)
    for (const { holdersTotal } of seen.locks) expect(holdersTotal).toBe(HOLDERS)
  })

  it('are counted in bytes, also with text of three bytes per character', async () => {
    const owner = { host: 'h', pid: 1, client: 'c' }
    const note = '锁'.repeat(340)
    const claim = { ref: 'r', owner, note, weight: 1, fence: 1n, ageMs: 0, remainingMs: 1_000 }
    const shape = { kind: 'semaphore', limit: 40 } as const
    const holders = Array.from({ length: 40 }, () => claim)
    const watcher = new Watcher({
      list: async function* () {
        for (let at = 0; at < 100; at += 1) yield { resource: `n${at}`, shape, holders, waiters: [] }
      },
      inspect: () => Promise.reject(new Error('not asked')),
      canList: true,
    })
    const all = { prefix: '', maySee: () => true, isWelcome: () => true }
    const stream = new EventStream({ watcher, hello: {}, ...all })
    const messages: Buffer[] = []
    stream.on('data', (chunk: Buffer) => messages.push(chunk))
    await watcher.refresh(0)
    stream.start()
    await until('all locks', () => messages.some((text) => text.includes('"more":false')))
    stream.destroy()
    watcher.close()
    expect(messages.filter((text) => text.includes('event: snapshot')).length).toBeGreaterThan(3)
    for (const { length } of messages) expect(length).toBeLessThan(1_200 * 1_024)
  })

  it('that cannot be sent end the stream of one listener, and nothing else', async () => {
    const errors: unknown[] = []
    const owner = {
      pid: 1,
      client: 'c',
      get host(): string {
        throw new RangeError('Invalid string length')
      },
    }
    const claim = { ref: 'r', owner, note: null, weight: 1, fence: 1n, ageMs: 0, remainingMs: 1_000 }
    const shape = { kind: 'mutex', limit: 1 } as const
    const watcher = new Watcher({
      list: async function* () {
        yield { resource: 'a', shape, holders: [claim], waiters: [] }
      },
      inspect: () => Promise.reject(new Error('not asked')),
      canList: true,
      onError: (error) => errors.push(error),
    })
    const stream = new EventStream({
      watcher,
      hello: {},
      prefix: '',
      maySee: () => true,
      isWelcome: () => true,
    })
    stream.resume()
    await watcher.refresh(0)
    stream.start()
    await until('the stream ended', () => stream.destroyed)
    expect(errors).toEqual([expect.any(RangeError)])
    expect(watcher.listeners).toBe(0)
    watcher.close()
  })
})

describe('a token with many claims', () => {
  it('is refused one more than its limit until one is released, and others are not', async () => {
    const service = await startService({ auth, limits: { claimsPerPrincipalMax: 2 } })
    try {
      const take = (name: string, who: string, body: object = {}) =>
        service.post(pathOf(name, 'acquire'), { ttlMs: 600_000, ...body }, { token: who })
      const id = 'chosen-by-the-caller-00001'
      const first = await take('guest/a', token.guest, { id })
      expect((await take('guest/b', token.guest)).status).toBe(200)
      const refused = await take('guest/c', token.guest)
      expect(refused.status).toBe(429)
      expect(refused.json).toMatchObject({
        code: 'TOO_MANY_CLAIMS',
        detail: expect.stringMatching(/holds 2 claims/),
      })
      expect(refused.headers['retry-after']).toBe('5')
      // What it has may be asked for again, and other tokens have limits of their own.
      expect((await take('guest/a', token.guest, { id })).status).toBe(200)
      expect((await take('guest/c', token.ops)).status).toBe(200)
      await service.post(pathOf('guest/a', 'release'), { claim: first.json['claim'] }, { token: token.guest })
      expect((await take('guest/d', token.guest)).status).toBe(200)
      const broken = await service.post(
        pathOf('guest/d', 'break'),
        { reason: 'a test' },
        { token: token.ops },
      )
      expect(broken.json).toMatchObject({ brokenTotal: 1 })
      expect((await take('guest/e', token.guest)).status).toBe(200)
    } finally {
      await service.close()
    }
  })
})
