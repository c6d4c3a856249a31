import { describe, expect, it } from 'vitest'
import { type SqliteRecordsOptions, sqliteRecords } from '../../src/backends/sqlite/records.js'
import { BackendUnavailableError, UnsupportedError } from '../../src/core/errors.js'
import type { ClaimAnswer, ClaimAsk, RecordStore } from '../../src/core/records.js'
import { claimOf, FakeMachine, NOW_OR_NEVER, openBackend, openRaw, tempPath, value } from './support.js'

const KEY = 'ab'.repeat(32)
const HOUR_MS = 3_600_000

class Machine extends FakeMachine {
  wall = Date.UTC(2030, 0, 1)

  wallMs(): number {
    return this.wall
  }

  pass(ms: number): void {
    this.now += ms
    this.wall += ms
  }

  reboot(): void {
    this.now = 500
    this.bootId = `${this.bootId} again`
  }
}

const stores: RecordStore[] = []

async function open(options: SqliteRecordsOptions): Promise<RecordStore> {
  const store = sqliteRecords(options)
  stores.push(store)
  await store.open()
  return store
}

function askOf(changes: Partial<ClaimAsk> = {}): ClaimAsk {
  const times = { leaseMs: 1_000, retentionMs: HOUR_MS }
  const owner = `owner ${Math.trunc(changes.leaseMs ?? 0)}`
  return { key: KEY, owner, fingerprint: null, ...times, takeOver: true, onlyIssued: false, ...changes }
}

function claimedOf(answer: ClaimAnswer): Extract<ClaimAnswer, { kind: 'claimed' }> {
  if (answer.kind !== 'claimed') throw new Error(`Expected a claim, got ${answer.kind}.`)
  return answer
}

async function closeAll(): Promise<void> {
  for (const store of stores.splice(0)) await store.close()
}

describe('records in SQLite', () => {
  it('lie beside the locks of the same file, whoever comes first', async () => {
    const path = await tempPath()
    const records = await open({ path })
    const locks = await openBackend({ path })
    const claim = claimOf('x')
    expect((await locks.attempt(claim, NOW_OR_NEVER)).kind).toBe('granted')
    claimedOf(await records.claim(askOf()))
    const later = await open({ path })
    expect((await later.claim(askOf({ owner: 'another' }))).kind).toBe('in-progress')
    expect(await locks.release(claim)).toBe('released')
    await closeAll()
  })

  it('write what outlasts a power cut', async () => {
    const path = await tempPath()
    const database = await openRaw(path)
    await open({ path, database })
    expect(value(database, 'PRAGMA synchronous')).toBe(2)
    await closeAll()
  })

  it('end a lease and a record by the clock that nobody can step', async () => {
    const path = await tempPath()
    const machine = new Machine()
    const [a, b] = [await open({ path, machine }), await open({ path, machine })]
    const ask = askOf({ owner: 'a', retentionMs: 5_000 })
    const { fence } = claimedOf(await a.claim(ask))
    for (const step of [HOUR_MS, -2 * HOUR_MS]) {
      machine.wall += step
      expect((await b.claim(askOf({ owner: 'b', takeOver: false }))).kind).toBe('in-progress')
    }
    machine.pass(999)
    expect((await b.claim(askOf({ owner: 'b', takeOver: false }))).kind).toBe('in-progress')
    machine.pass(1)
    expect((await b.claim(askOf({ owner: 'b', takeOver: false }))).kind).toBe('abandoned')
    const end = { key: KEY, owner: 'a', fence, state: 'completed', result: 'x', retentionMs: 5_000 } as const
    expect(await a.finish(end)).toBe('done')
    machine.wall += 24 * HOUR_MS
    machine.pass(4_999)
    expect((await b.read(KEY))?.result).toBe('x')
    machine.pass(1)
    expect(await b.read(KEY)).toBe(null)
    await closeAll()
  })

  it('outlast a reboot, which ends every lease and no record', async () => {
    const path = await tempPath()
    const machine = new Machine()
    const before = await open({ path, machine })
    const other = 'cd'.repeat(32)
    const { fence } = claimedOf(await before.claim(askOf({ leaseMs: HOUR_MS })))
    const done = claimedOf(await before.claim(askOf({ key: other, owner: 'd' }))).fence
    const ref = { key: other, owner: 'd', fence: done }
    await before.finish({ ...ref, state: 'completed', result: 'kept', retentionMs: HOUR_MS })
    await closeAll()
    machine.reboot()
    machine.wall += HOUR_MS / 2
    const after = await open({ path, machine })
    expect((await after.read(other))?.result).toBe('kept')
    const taken = claimedOf(await after.claim(askOf({ owner: 'next' })))
    expect([taken.attempt, taken.tookOver]).toEqual([2, true])
    expect(taken.fence).toBeGreaterThan(fence)
    machine.pass(HOUR_MS / 2)
    expect(await after.read(other)).toBe(null)
    await closeAll()
  })

  it('go on from where their clock stood if a boot begins in the past', async () => {
    const path = await tempPath()
    const machine = new Machine()
    const before = await open({ path, machine })
    machine.pass(HOUR_MS)
    const { fence } = claimedOf(await before.claim(askOf()))
    // Also what is no longer there counts.
    expect(await before.forget(KEY)).toBe(true)
    await closeAll()
    machine.reboot()
    machine.wall = 0
    const after = await open({ path, machine })
    expect(claimedOf(await after.claim(askOf())).fence).toBeGreaterThan(fence)
    await closeAll()
  })

  it('give a higher fence for every claim while the clock stands still', async () => {
    const store = await open({ path: await tempPath(), machine: new Machine() })
    let last = 0n
    for (let times = 0; times < 5; times += 1) {
      const { fence } = claimedOf(await store.claim(askOf({ owner: `owner of ${times}` })))
      expect(fence).toBeGreaterThan(last)
      last = fence
      if (times % 2 === 0) await store.forget(KEY)
      const ref = { key: KEY, owner: `owner of ${times}`, fence }
      await store.finish({ ...ref, state: 'released', result: null, retentionMs: null })
    }
    await closeAll()
  })

  it('purge in several steps, and never what is kept for ever', async () => {
    const machine = new Machine()
    const store = await open({ path: await tempPath(), machine })
    const keyOf = (n: number): string => n.toString(16).padStart(64, '0')
    for (let n = 0; n < 520; n += 1) await store.issue(keyOf(n), 1_000)
    await store.claim(askOf({ retentionMs: null }))
    machine.pass(HOUR_MS)
    expect(await store.purge?.(10)).toBe(10)
    expect(await store.purge?.(10_000)).toBe(510)
    expect((await store.read(KEY))?.state).toBe('in-progress')
    await closeAll()
  })

  it('tell of a row that makes no sense without its key, and refuse another version', async () => {
    const path = await tempPath()
    const store = await open({ path })
    await store.claim(askOf())
    const raw = await openRaw(path)
    raw.exec("UPDATE records SET state = 'lost'")
    const error = await store.read(KEY).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(BackendUnavailableError)
    expect(String(error)).not.toContain(KEY)
    raw.exec('UPDATE record_clock SET version = 2')
    await expect(open({ path })).rejects.toThrow(UnsupportedError)
    raw.close()
    await closeAll()
  })
})
