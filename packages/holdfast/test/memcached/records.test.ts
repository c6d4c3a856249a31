import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import { type MemcachedServer, startMemcached } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { openMemcachedRecords } from '../../src/backends/memcached/open-records.js'
import { HEAD_BYTES_MAX, readRecord, writeRecord } from '../../src/backends/memcached/record-text.js'
import type { ClaimAsk, ClaimRef, RecordStore } from '../../src/core/records.js'
import { memcachedRecords } from '../../src/memcached.js'
import { isMissing, locksAt, rejection, started, whyMissing } from './support.js'

const DAY_S = 86_400
const PREFIX = 'holdfast:idem:'
/** A machine under load may take this long between a command and the look at what it did. */
const SLACK_S = 60

let server: MemcachedServer
beforeAll(async () => {
  if (!isMissing) server = await startMemcached()
})
afterAll(async () => {
  if (!isMissing) await server.dispose()
})

async function recordsAt(url: string): Promise<RecordStore> {
  const store = await openMemcachedRecords(url)
  onTestFinished(() => store.close())
  await store.open()
  return store
}

function askOf(changes: Partial<ClaimAsk> = {}): ClaimAsk {
  return {
    key: randomBytes(32).toString('hex'),
    owner: randomBytes(16).toString('hex'),
    fingerprint: `v1:${'a'.repeat(64)}`,
    leaseMs: 30_000,
    retentionMs: 600_000,
    takeOver: true,
    onlyIssued: false,
    ...changes,
  }
}

async function claimIn(store: RecordStore, ask: ClaimAsk): Promise<ClaimRef> {
  const answer = await store.claim(ask)
  if (answer.kind !== 'claimed') throw new Error(`It was not claimed but ${answer.kind}.`)
  return { key: ask.key, owner: ask.owner, fence: answer.fence }
}

/** What is left of an item, in seconds; -1: it never ends. */
async function leftOf(at: MemcachedServer, key: string): Promise<number> {
  const answer = await at.command(`mg ${PREFIX}${key} t`)
  const left = /(?:^| )t(-?\d+)/.exec(answer)?.[1]
  if (left === undefined) throw new Error(`There is no such item: ${answer}`)
  return Number(left)
}

async function expectLeft(key: string, seconds: number): Promise<void> {
  const left = await leftOf(server, key)
  // Two are added for what the count of the server may be behind, for the lease and for the retention.
  expect(left).toBeLessThanOrEqual(seconds + 4)
  expect(left).toBeGreaterThan(seconds - SLACK_S)
}

describe.skipIf(isMissing)(titled('records in memcached', whyMissing), () => {
  test.each([1, 29, 30, 31, 300])(
    'stay for %i days, which the server would take for a date',
    async (days) => {
      const store = await recordsAt(server.url)
      const ask = askOf({ retentionMs: days * DAY_S * 1_000 })
      const claim = await claimIn(store, ask)
      await expectLeft(ask.key, days * DAY_S + 30)
      expect(await store.claim({ ...ask, owner: 'else' })).toMatchObject({ kind: 'in-progress' })
      const [renewal] = await store.renew([{ ...claim, leaseMs: 300_000, retentionMs: ask.retentionMs }])
      expect(renewal).toBe('renewed')
      await expectLeft(ask.key, days * DAY_S + 300)
      const view = await store.read(ask.key)
      expect(view?.leaseMs).toBeGreaterThan(200_000)
      expect(view?.leaseMs).toBeLessThanOrEqual(303_000)
      await store.finish({ ...claim, state: 'completed', result: '"é"', retentionMs: ask.retentionMs })
      await expectLeft(ask.key, days * DAY_S)
      expect(await store.claim({ ...ask, owner: 'else' })).toMatchObject({ kind: 'settled', result: '"é"' })
    },
  )

  test('are not kept for ever', async () => {
    const store = await recordsAt(server.url)
    expect(store.traits).toMatchObject({ keeps: 'volatile', retentionMaxMs: 366 * DAY_S * 1_000 })
    const ask = askOf({ retentionMs: null })
    expect(await rejection(store.claim(ask))).toMatchObject({ code: 'UNSUPPORTED' })
    expect(await store.read(ask.key)).toBe(null)
  })

  test('live neither longer nor shorter for progress and showings, however many', async () => {
    const store = await recordsAt(server.url)
    const other = await recordsAt(server.url)
    const ask = askOf({ leaseMs: 40_000, retentionMs: 80_000 })
    const claim = await claimIn(store, ask)
    const token = askOf().key
    await store.issue(token, 100_000)
    const [item, shown] = [await leftOf(server, ask.key), await leftOf(server, token)]
    const began = performance.now()
    // The server counts in seconds. What is left would not go down if each of these writes began the count again.
    for (let round = 0; performance.now() - began < 3_500; round += 1) {
      expect(await store.save({ ...claim, progress: `[${round}]` })).toBe('done')
      await (round % 2 === 0 ? store : other).spend({ key: token, count: true })
    }
    expect(await leftOf(server, ask.key)).toBeLessThanOrEqual(item - 2)
    const passedS = Math.ceil((performance.now() - began) / 1_000)
    expect(await leftOf(server, ask.key)).toBeGreaterThan(item - passedS - SLACK_S)
    expect(await leftOf(server, token)).toBeLessThanOrEqual(shown - 2)
    expect((await other.read(ask.key))?.leaseMs).toBeLessThanOrEqual(42_000 - 2_000)
  })

  test('promise an owner that asks again no more than is certain', async () => {
    const store = await recordsAt(server.url)
    const ask = askOf({ leaseMs: 30_000 })
    await claimIn(store, ask)
    const certain: number[] = []
    const kinds = new Set<string>()
    await until('the server has counted on', async () => {
      const answer = await store.claim(ask)
      kinds.add(answer.kind)
      if (answer.kind === 'claimed') certain.push(answer.leaseMs)
      return (certain.at(-1) ?? 0) <= 29_000
    })
    expect(kinds).toEqual(new Set(['claimed']))
    expect(Math.max(...certain)).toBeLessThanOrEqual(30_000)
    const view = await store.read(ask.key)
    expect(view?.leaseMs).toBeGreaterThan(certain.at(-1) ?? 0)
  })

  test('have fences that grow over a flush and a restart', async () => {
    const own = await started()
    const store = await recordsAt(own.url)
    const ask = askOf()
    const fences = [(await claimIn(store, ask)).fence]
    await own.command('flush_all')
    await until('it is gone', async () => (await store.read(ask.key)) === null)
    fences.push((await claimIn(store, { ...ask, owner: 'second' })).fence)
    await own.kill()
    // The second of its start is in the fence, so it must be another one.
    await new Promise((resolve) => setTimeout(resolve, 1_100))
    await own.restart()
    await until('it answers', async () => (await store.read(ask.key).catch(() => 'down')) === null)
    fences.push((await claimIn(store, { ...ask, owner: 'third' })).fence)
    expect(fences.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(fences)
    expect(new Set(fences).size).toBe(3)
    // It fits into what databases keep fences in.
    expect(fences.every((fence) => fence > 0n && fence < 2n ** 63n)).toBe(true)
    const other = await recordsAt(own.url)
    expect((await other.read(ask.key))?.fence).toBe(fences[2])
  })

  test('that are too large are refused before anything is sent, and what was there stays', async () => {
    const store = await recordsAt(server.url)
    const claim = await claimIn(store, askOf())
    const { bytesMax } = store.traits
    const end = { ...claim, state: 'completed', retentionMs: 600_000 } as const
    const tooLarge = 'é'.repeat(Math.ceil((bytesMax + HEAD_BYTES_MAX) / 2))
    expect(await rejection(store.finish({ ...end, result: tooLarge }))).toMatchObject({ code: 'UNSUPPORTED' })
    expect(await store.read(claim.key)).toMatchObject({ state: 'in-progress' })
    const whole = 'é'.repeat(Math.floor(bytesMax / 2))
    expect(await store.finish({ ...end, result: whole })).toBe('done')
    expect((await store.read(claim.key))?.result).toBe(whole)
  })

  test('leave alone what others have put under their keys', async () => {
    const store = await recordsAt(server.url)
    for (const text of ['somebody else', 'holdfast-idem-2 []\n', 'holdfast-idem-1 [1,2]\n', '']) {
      const ask = askOf()
      const { key } = ask
      await server.command(`set ${PREFIX}${key} 0 500 ${text.length}\r\n${text}`)
      const claim = { key, owner: 'x', fence: 1n }
      const calls: Promise<unknown>[] = [
        store.claim(ask),
        store.finish({ ...claim, state: 'completed', result: null, retentionMs: 1_000 }),
        store.renew([{ ...claim, leaseMs: 1_000, retentionMs: 1_000 }]),
        store.read(key),
        store.issue(key, 1_000),
        store.spend({ key, count: true }),
        store.forget(key),
      ]
      for (const call of calls) {
        const error = await rejection(call)
        expect(error).toMatchObject({ code: 'UNSUPPORTED' })
        expect(inspect(error, { depth: 10 })).not.toContain(key)
      }
      expect(await server.command(`mg ${PREFIX}${key} v`)).toContain(text.trimEnd())
    }
  })

  test('do not show among locks', async () => {
    const store = memcachedRecords({ port: server.port })
    onTestFinished(() => store.close())
    await store.open()
    await claimIn(store, askOf())
    const locks = await locksAt(server.url)
    const hold = await locks.mutex('beside-records').acquire()
    const names: string[] = []
    for await (const { resource } of locks.list()) names.push(resource)
    expect(names).toEqual(['beside-records'])
    await hold.release()
  })

  test.each(['recipe=add', 'exactPath=true', 'requestMs=0', 'prefix=a%20b'])(
    'may not have the option %s',
    async (option) => {
      const error = await rejection(openMemcachedRecords(`${server.url}?${option}`))
      expect(error).toMatchObject({ code: 'INVALID_INPUT' })
    },
  )
})

describe('the text of a record', () => {
  const record = {
    state: 'in-progress',
    owner: 'o'.repeat(128),
    fence: 2n ** 63n - 1n,
    attempt: 1_000_000,
    tookOver: true,
    fingerprint: `v1:${'a'.repeat(256)}`,
    progress: 'ü\n𠮷',
    result: null,
    createdAtMs: null,
  } as const

  test('comes back as it was, and its head has room', () => {
    for (const result of [null, '', 'é"\n']) {
      const item = { record: { ...record, result }, endsAt: 2_000_000_000, leaseEndsAt: 1_900_000_000 }
      expect(readRecord(writeRecord(item))).toEqual(item)
    }
    const head = writeRecord({ record: { ...record, progress: null }, endsAt: 2e9, leaseEndsAt: 2e9 })
    expect(head.length).toBeLessThan(HEAD_BYTES_MAX)
  })

  test('is none with anything cut off or added', () => {
    const text = writeRecord({ record, endsAt: 10, leaseEndsAt: 5 })
    expect(readRecord(`${text}x`)).toBe(null)
    for (let length = 0; length < text.length; length += 1)
      expect(readRecord(text.slice(0, length))).toBe(null)
  })
})
