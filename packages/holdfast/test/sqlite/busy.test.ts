import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, it, onTestFinished } from 'vitest'
import { sqliteBackend } from '../../src/backends/sqlite/backend.js'
import { elapsedMs } from '../../src/backends/sqlite/clock.js'
import { sqliteRecords } from '../../src/backends/sqlite/records.js'
import type { Claim } from '../../src/core/backend.js'
import { BackendUnavailableError, ClosedError } from '../../src/core/errors.js'
import { createIdempotency } from '../../src/idempotency.js'
import { createLocks } from '../../src/index.js'
import {
  claimOf,
  FakeMachine,
  fenceOf,
  NO_SINK,
  NOW_OR_NEVER,
  openBackend,
  openRaw,
  PATIENT,
  tempPath,
  value,
} from './support.js'

const OPEN = `
  const Database = Number.parseInt(process.versions.node) >= 24
    ? process.getBuiltinModule('node:sqlite').DatabaseSync
    : (await import('libsql')).default
  const database = new Database(process.argv[1])
`

/** Another process that has the write lock from the moment this returns, for as long as said. */
async function holdWriteLock(path: string, ms: number): Promise<ChildProcess> {
  const script = `${OPEN}
    database.exec('BEGIN IMMEDIATE')
    console.log('locked')
    setTimeout(() => { database.exec('ROLLBACK'); database.close() }, ${ms})`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return child
}

/** The longest time that the event loop did not come round, until `stop` is called. */
function watchLoop(): { stop(): number } {
  let longest = 0
  let last = elapsedMs()
  const timer = setInterval(() => {
    const now = elapsedMs()
    longest = Math.max(longest, now - last)
    last = now
  }, 1)
  return {
    stop: () => {
      clearInterval(timer)
      return longest
    },
  }
}

describe('a busy database', () => {
  it('is waited for without blocking the event loop', async () => {
    const path = await tempPath()
    const backend = await openBackend({ path, busyMs: 60_000 })
    // So long that no stall of the machine looks like an event loop that is blocked for all of it.
    await holdWriteLock(path, 2_400)
    const loop = watchLoop()
    const startedAt = elapsedMs()
    const verdict = await backend.attempt(claimOf('a'), NOW_OR_NEVER)
    const tookMs = elapsedMs() - startedAt
    const longestMs = loop.stop()
    expect(verdict.kind).toBe('granted')
    expect(tookMs).toBeGreaterThan(1_000)
    expect(longestMs).toBeLessThan(tookMs / 3)
  })

  it('is waited for when it opens', async () => {
    const path = await tempPath()
    await (await openBackend({ path, machine: new FakeMachine('boot-one') })).close()
    await holdWriteLock(path, 200)
    await openBackend({ path, machine: new FakeMachine('boot-two') })
  })

  it('gives a typed error in the end, and certainly nothing happened', async () => {
    const path = await tempPath()
    const backend = await openBackend({ path, busyMs: 50 })
    const held = claimOf('held')
    await fenceOf(backend, held)
    const raw = await openRaw(path)
    raw.exec('BEGIN IMMEDIATE')
    const refused = [
      backend.attempt(claimOf('a'), PATIENT),
      backend.renew([{ claim: held, fence: 1n, leaseMs: 90_000 }]),
      backend.release(held),
      backend.evict('held', 'x'),
    ]
    for (const each of await Promise.allSettled(refused)) {
      expect(each).toMatchObject({ status: 'rejected', reason: { code: 'BACKEND_UNAVAILABLE' } })
    }
    raw.exec('ROLLBACK')
    expect((await backend.inspect('a')).shape).toBeNull()
    expect((await backend.inspect('held')).holders[0]?.remainingMs).toBeLessThanOrEqual(10_000)
    expect((await backend.attempt(claimOf('a'), NOW_OR_NEVER)).kind).toBe('granted')
  })

  it('is named as the cause when a process is stopped inside a transaction, and goes on after its end', async () => {
    const path = await tempPath()
    const locks = await createLocks(sqliteBackend({ path }), { requestMs: 300 })
    onTestFinished(() => locks.close())
    const records = await createIdempotency(sqliteRecords({ path }), { requestMs: 300 })
    onTestFinished(() => records.close())
    const stopped = await holdWriteLock(path, 600_000)
    onTestFinished(() => void stopped.kill('SIGKILL'))
    stopped.kill('SIGSTOP')
    const cause = /did not answer within 300 ms.*stopped inside a transaction/s
    // Every name is concerned, and records are, too.
    for (const name of ['one', 'other']) {
      const trying = locks.mutex(name).tryAcquire()
      await expect(trying).rejects.toMatchObject({
        code: 'OUTCOME_UNKNOWN',
        message: expect.stringMatching(cause),
      })
    }
    await expect(records.run({ scope: { tenant: 't', operation: 'o' }, key: 'k' }, () => 1)).rejects.toThrow(
      cause,
    )
    stopped.kill('SIGKILL')
    await (await locks.mutex('one').acquire()).release()
  })

  it('does not keep a request alive after close', async () => {
    const path = await tempPath()
    const backend = await openBackend({ path, busyMs: 60_000 })
    const raw = await openRaw(path)
    raw.exec('BEGIN IMMEDIATE')
    const waiting = backend.attempt(claimOf('a'), PATIENT)
    const outcome = expect(waiting).rejects.toThrow(ClosedError)
    await backend.close()
    await outcome
    raw.exec('ROLLBACK')
  })

  it('does not leave an opening that had to wait with an old view of the file', async () => {
    const path = await tempPath()
    const raw = await openRaw(path)
    raw.exec('BEGIN EXCLUSIVE')
    const opening = openBackend({ path, busyMs: 60_000 })
    // Long enough for several tries, each of which finds the new file busy.
    await new Promise((resolve) => setTimeout(resolve, 60))
    raw.exec('ROLLBACK')
    const other = await openBackend({ path })
    const backend = await opening
    const claim = claimOf('a')
    await other.attempt(claim, PATIENT)
    await other.release(claim)
    expect((await backend.attempt(claimOf('b'), PATIENT)).kind).toBe('granted')
  })

  it('does not bring back a claim whose release overtook its attempt', async () => {
    const path = await tempPath()
    const backend = await openBackend({ path })
    const raw = await openRaw(path)
    raw.exec('BEGIN IMMEDIATE')
    const claims = Array.from({ length: 20 }, (_, index) => claimOf(`n${index}`))
    const attempts = claims.map((claim) => backend.attempt(claim, PATIENT))
    const releases = claims.map((claim) => backend.release(claim))
    // Long enough for the pauses to have grown, and with them the chance that a release comes first.
    await new Promise((resolve) => setTimeout(resolve, 100))
    raw.exec('ROLLBACK')
    await Promise.all([...attempts, ...releases])
    expect(value(raw, 'SELECT count(*) FROM places')).toBe(0)
    // The same id may ask again later.
    expect((await backend.attempt(claims[0] as Claim, NOW_OR_NEVER)).kind).toBe('granted')
  })

  it('is shared by processes that lose no grant to each other', async () => {
    const path = await tempPath()
    const backends = [await openBackend({ path }), await openBackend({ path }), await openBackend({ path })]
    let [inside, most, total] = [0, 0, 0]
    const work = backends.map(async (backend) => {
      for (let round = 0; round < 60; round += 1) {
        const claim = claimOf('a')
        while ((await backend.attempt(claim, PATIENT)).kind !== 'granted') {
          await new Promise((resolve) => setTimeout(resolve, 1))
        }
        inside += 1
        most = Math.max(most, inside)
        total += 1
        await new Promise((resolve) => setImmediate(resolve))
        inside -= 1
        expect(await backend.release(claim)).toBe('released')
      }
    })
    await Promise.all(work)
    expect([most, total]).toEqual([1, 180])
  })
})

describe('a connection', () => {
  it('rejects before it is open and after it is closed, and closes twice', async () => {
    const path = await tempPath()
    const backend = sqliteBackend({ path, machine: new FakeMachine() })
    await expect(backend.attempt(claimOf('a'), PATIENT)).rejects.toThrow(BackendUnavailableError)
    await backend.open(NO_SINK)
    await backend.close()
    await backend.close()
    const claim = claimOf('a')
    await expect(backend.attempt(claim, PATIENT)).rejects.toThrow(ClosedError)
    await expect(backend.renew([{ claim, fence: 1n, leaseMs: 1 }])).rejects.toThrow(ClosedError)
    await expect(backend.release(claim)).rejects.toThrow(ClosedError)
    await expect(backend.inspect('a')).rejects.toThrow(ClosedError)
    await expect(backend.evict('a', 'x')).rejects.toThrow(ClosedError)
    await expect(backend.list('')[Symbol.asyncIterator]().next()).rejects.toThrow(ClosedError)
    await expect(backend.open(NO_SINK)).rejects.toThrow(ClosedError)
  })

  it('that is given is used, and left open', async () => {
    const path = await tempPath()
    const database = await openRaw(path)
    const backend = await openBackend({ path, database, machine: new FakeMachine() })
    await fenceOf(backend, claimOf('a'))
    await backend.close()
    expect(value(database, 'SELECT count(*) FROM places')).toBe(1)
  })

  it('that is given must not lie in memory', async () => {
    const database = await openRaw(':memory:')
    const backend = sqliteBackend({ path: 'locks.db', database, machine: new FakeMachine() })
    await expect(backend.open(NO_SINK)).rejects.toThrow(/memory/)
  })

  it('with a transaction of somebody else open does not write into it', async () => {
    const path = await tempPath()
    const database = await openRaw(path)
    const backend = await openBackend({ path, database, machine: new FakeMachine() })
    const held = claimOf('a')
    await fenceOf(backend, held)
    database.exec('BEGIN')
    await expect(backend.release(held)).rejects.toThrow(BackendUnavailableError)
    database.exec('ROLLBACK')
    expect(await backend.release(held)).toBe('released')
  })
})
