/** What is special about records whose owners are kept alive by sessions of the store, on a real server. */

import { randomBytes } from 'node:crypto'
import { startProxy } from 'holdfast-servers'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { InvalidInputError, OutcomeUnknownError, UnsupportedError } from '../../src/core/errors.js'
import type { ClaimAnswer, ClaimAsk, ClaimRef, RecordStore } from '../../src/core/records.js'

const TIMEOUT_MS = 90_000
const LEASE_MS = 1_000

/** A server, and a way to its keys beside the library. */
export interface SessionServer {
  readonly port: number
  /** The records below a prefix, at this port. */
  open(port: number, prefix: string): Promise<RecordStore>
  put(name: string, value: string): Promise<void>
  get(name: string): Promise<string | null>
  /** Ends the session that keeps this key, as an operator would. */
  endSessionOf(name: string): Promise<void>
}

export function freshKey(): string {
  return randomBytes(32).toString('hex')
}

export function askOf(changes: Partial<ClaimAsk> = {}): ClaimAsk {
  return {
    key: freshKey(),
    owner: randomBytes(16).toString('hex'),
    fingerprint: null,
    leaseMs: LEASE_MS,
    retentionMs: 3_600_000,
    takeOver: true,
    onlyIssued: false,
    ...changes,
  }
}

/** A store that ends with the test. */
export async function opened(store: RecordStore): Promise<RecordStore> {
  onTestFinished(() => store.close())
  await store.open()
  return store
}

export async function claimed(
  store: RecordStore,
  ask: ClaimAsk,
): Promise<ClaimRef & { readonly ask: ClaimAsk }> {
  const answer = await store.claim(ask)
  if (answer.kind !== 'claimed') throw new Error(`Expected a claim, got ${answer.kind}.`)
  return { key: ask.key, owner: ask.owner, fence: answer.fence, ask }
}

function ref({ key, owner, fence }: ClaimRef): ClaimRef {
  return { key, owner, fence }
}

export function completed(own: ClaimRef, result = 'done', retentionMs: number | null = 3_600_000) {
  return { ...ref(own), state: 'completed', result, retentionMs } as const
}

export function recordName(prefix: string, key: string): string {
  return `${prefix}/+idempotency/${key}`
}

async function takenOver(
  store: RecordStore,
  ask: ClaimAsk,
): Promise<Extract<ClaimAnswer, { kind: 'claimed' }>> {
  let answer = await store.claim(ask)
  await until('it is taken over', async () => {
    answer = await store.claim(ask)
    return answer.kind === 'claimed'
  })
  if (answer.kind !== 'claimed') throw new Error('unreachable')
  return answer
}

function describeOwners(server: () => SessionServer): void {
  test('a session that the server ends leaves the record abandoned, and its owner hears of it', async () => {
    const prefix = freshKey().slice(0, 8)
    const [a, b] = await Promise.all([
      opened(await server().open(server().port, prefix)),
      opened(await server().open(server().port, prefix)),
    ])
    const own = await claimed(a, askOf({ leaseMs: 60_000 }))
    const rival = { ...own.ask, owner: 'rival' }
    expect(await b.claim(rival)).toMatchObject({ kind: 'in-progress', fence: own.fence })
    await server().endSessionOf(`${recordName(prefix, own.key)}/owner`)
    expect(await b.claim({ ...rival, takeOver: false })).toEqual({
      kind: 'abandoned',
      fence: own.fence,
      attempt: 1,
    })
    expect(await a.renew([{ ...ref(own), leaseMs: LEASE_MS, retentionMs: 1_000 }])).toEqual(['lost'])
    // What it has done is real as long as nobody has begun anew.
    expect(await a.save({ ...ref(own), progress: 'still' })).toBe('done')
    expect(await b.claim(rival)).toMatchObject({
      kind: 'claimed',
      tookOver: true,
      attempt: 2,
      progress: 'still',
    })
    expect(await a.finish(completed(own))).toBe('stale')
    expect(await claimed(a, askOf())).toMatchObject({ owner: expect.any(String) })
  })

  test('an owner that is cut off is taken over from, and can do nothing when it is back', async () => {
    const prefix = freshKey().slice(0, 8)
    const proxy = await startProxy(server().port)
    onTestFinished(() => proxy.dispose())
    const [a, b] = [
      await opened(await server().open(proxy.port, prefix)),
      await opened(await server().open(server().port, prefix)),
    ]
    const own = await claimed(a, askOf())
    proxy.refuse(true)
    proxy.cut()
    const next = await takenOver(b, { ...own.ask, owner: 'rival', leaseMs: 60_000 })
    expect(next.fence).toBeGreaterThan(own.fence)
    proxy.refuse(false)
    await until('it hears that it was taken over from', async () => {
      const [answer] = await a
        .renew([{ ...ref(own), leaseMs: LEASE_MS, retentionMs: 1_000 }])
        .catch(() => ['unknown'])
      return answer === 'lost'
    })
    await until('the server answers again', async () => (await a.read(own.key).catch(() => null)) !== null)
    expect(await a.finish(completed(own, 'late'))).toBe('stale')
    expect(await b.read(own.key)).toMatchObject({ state: 'in-progress', owner: 'rival', fence: next.fence })
  })

  test('a claim without an answer is found by its owner; one that nobody asks for again is given up', async () => {
    const prefix = freshKey().slice(0, 8)
    const proxy = await startProxy(server().port)
    onTestFinished(() => proxy.dispose())
    const [a, b] = [
      await opened(await server().open(proxy.port, prefix)),
      await opened(await server().open(server().port, prefix)),
    ]
    const unanswered = async (ask: ClaimAsk): Promise<void> => {
      // What the claim needs beside is there from the first.
      await claimed(a, askOf({ leaseMs: ask.leaseMs }))
      proxy.holdReplies(true)
      const claiming = a.claim(ask).catch((error: unknown) => error)
      await until('the server has it', async () => (await b.read(ask.key)) !== null)
      proxy.cut()
      proxy.holdReplies(false)
      expect(await claiming).toBeInstanceOf(OutcomeUnknownError)
    }
    const asked = askOf({ leaseMs: 60_000 })
    await unanswered(asked)
    const fence = (await b.read(asked.key))?.fence
    let again: ClaimAnswer | null = null
    await until('its owner asks again', async () => {
      again = await a.claim(asked).catch(() => null)
      return again !== null
    })
    expect(again).toMatchObject({ kind: 'claimed', fence, attempt: 1 })
    expect(await a.finish(completed({ ...asked, fence: fence ?? 0n }))).toBe('done')
    const left = askOf()
    await unanswered(left)
    expect(await takenOver(b, { ...left, owner: 'rival' })).toMatchObject({ attempt: 2, tookOver: true })
  })
}

function describeContents(server: () => SessionServer): void {
  test('as much as the traits say is kept, and more is refused before anything is written', async () => {
    const store = await opened(await server().open(server().port, freshKey().slice(0, 8)))
    const { bytesMax } = store.traits
    const own = await claimed(store, askOf({ leaseMs: 60_000, fingerprint: `v1:${'f'.repeat(64)}` }))
    await expect(store.save({ ...ref(own), progress: 'x'.repeat(bytesMax + 1) })).rejects.toThrow(
      InvalidInputError,
    )
    // Two bytes each, though it is one character.
    await expect(store.finish(completed(own, 'é'.repeat(bytesMax / 2 + 1)))).rejects.toThrow(
      InvalidInputError,
    )
    expect(await store.read(own.key)).toMatchObject({ state: 'in-progress', progress: null, result: null })
    const progress = '"\\'.repeat(bytesMax / 4)
    const result = 'é'.repeat(bytesMax / 4)
    expect(await store.save({ ...ref(own), progress })).toBe('done')
    expect(await store.finish(completed(own, result))).toBe('done')
    const view = await store.read(own.key)
    expect([view?.progress === progress, view?.result === result]).toEqual([true, true])
  })

  test('something else where a record would be is told, and never written over', async () => {
    const prefix = freshKey().slice(0, 8)
    const store = await opened(await server().open(server().port, prefix))
    const values = [
      'precious',
      '{"holdfast":"1"}\n',
      '{"holdfast":1}\n',
      '{"holdfast":2}\nwhatever',
      '[]\n',
      '',
    ]
    for (const value of values) {
      const ask = askOf()
      const name = recordName(prefix, ask.key)
      await server().put(name, value)
      const own = { ...ask, fence: 1n }
      const calls: readonly (() => Promise<unknown>)[] = [
        () => store.claim(ask),
        () => store.read(ask.key),
        () => store.finish(completed(own)),
        () => store.save({ ...ref(own), progress: 'x' }),
        () => store.issue(ask.key, 1_000),
        () => store.spend({ key: ask.key, count: true }),
        () => store.forget(ask.key),
      ]
      for (const call of calls) await expect(call(), value).rejects.toThrow(UnsupportedError)
      expect(await store.purge?.(10)).toBeOneOf([undefined, 0])
      expect(await server().get(name)).toBe(value)
      expect(await server().get(`${name}/owner`)).toBe(null)
    }
  })

  test('other keys below the prefix are left alone', async () => {
    const prefix = freshKey().slice(0, 8)
    const store = await opened(await server().open(server().port, prefix))
    const own = await claimed(store, askOf({ leaseMs: 60_000 }))
    const name = recordName(prefix, own.key)
    const others = [`${name}x`, `${name}/owners`, `${name}/owner/x`, `${prefix}/+idempotency/readme`]
    for (const other of others) await server().put(other, 'precious')
    await server().put(`${recordName(prefix, freshKey())}/owner`, 'nobody')
    expect(await store.read(own.key)).toMatchObject({ state: 'in-progress', owner: own.owner })
    expect(await store.renew([{ ...ref(own), leaseMs: 60_000, retentionMs: 1_000 }])).toEqual(['held'])
    expect(await store.finish(completed(own, 'kept', 1))).toBe('done')
    await until('it is over', async () => (await store.read(own.key)) === null)
    await store.purge?.(10)
    expect(await claimed(store, { ...own.ask, owner: 'next' })).toMatchObject({ key: own.key })
    expect(await store.forget(own.key)).toBe(true)
    for (const other of others) expect(await server().get(other), other).toBe('precious')
  })

  test('an owner that was left without a record keeps nobody out', async () => {
    const prefix = freshKey().slice(0, 8)
    const store = await opened(await server().open(server().port, prefix))
    const ask = askOf({ leaseMs: 60_000 })
    await server().put(`${recordName(prefix, ask.key)}/owner`, '60000 somebody')
    const own = await claimed(store, ask)
    expect(await store.renew([{ ...ref(own), leaseMs: 60_000, retentionMs: 1_000 }])).toEqual(['held'])
  })
}

/** Registers the cases. `server` is there when they run. */
export function describeSessionRecords(name: string, server: () => SessionServer): void {
  describe(`records of ${name}`, { timeout: TIMEOUT_MS }, () => {
    describeOwners(server)
    describeContents(server)
  })
}
