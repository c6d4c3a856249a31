import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Claim, Guarantees, Patience, Verdict } from '../../src/core/backend.js'
import { AcquireTimeoutError } from '../../src/core/errors.js'
import type { ClientOptions } from '../../src/core/options.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'

/** A store that mints no fencing tokens. */
class Unfenced extends RelayBackend {
  override get guarantees(): Guarantees {
    return { ...super.guarantees, fencing: 'none' }
  }

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await super.attempt(claim, patience)
    return 'fence' in verdict ? { ...verdict, fence: null } : verdict
  }
}

let time: VirtualTime
let store: MemoryStore
const opened: Locks[] = []

beforeEach(() => {
  time = new VirtualTime()
  store = new MemoryStore({ nowMs: () => time.nowMs })
})

afterEach(async () => {
  for (const locks of opened.splice(0)) await locks.close()
})

async function client(options: ClientOptions = {}): Promise<Locks> {
  const locks = await createLocks(memoryBackend(store), options, new VirtualRuntime(time))
  opened.push(locks)
  return locks
}

/** Lets the time pass in which the call waits. */
async function passing<T>(call: Promise<T>): Promise<T> {
  const [result] = await Promise.all([call, time.advance(1_000)])
  return result
}

describe('how long a call waits', () => {
  it('is what the client says, then what the lock says, then what the call says', async () => {
    const other = await client()
    await other.mutex('a').acquire()
    const locks = await client({ waitMs: 5 })
    const waitedBy = async (call: Promise<unknown>): Promise<number> => {
      const error: unknown = await passing(call.catch((reason: unknown) => reason))
      expect(error).toBeInstanceOf(AcquireTimeoutError)
      return Math.round((error as AcquireTimeoutError).waitedMs)
    }
    expect(await waitedBy(locks.mutex('a').acquire())).toBe(5)
    expect(await waitedBy(locks.mutex('a', { waitMs: 40 }).acquire())).toBe(40)
    expect(await waitedBy(locks.mutex('a', { waitMs: 40 }).acquire({ waitMs: 60 }))).toBe(60)
    expect(await waitedBy(locks.all(['a', 'b']).acquire())).toBe(5)
    expect(await waitedBy(locks.mutex('a').run(() => 0))).toBe(5)
  })

  it('does not end the wait of a candidate that has no limit of its own', async () => {
    const other = await client()
    const leader = await other.election('office').campaign()
    const locks = await client({ waitMs: 1 })
    const candidate = locks.election('office').campaign()
    await time.advance(60_000)
    await leader.resign()
    await (await passing(candidate)).resign()
  })

  it.each([{ waitMs: -1 }, { waitMs: 1.5 }, { waitMs: '5s' as never }])('refuses %j', async (options) => {
    await expect(client(options)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    const locks = await client()
    expect(() => locks.mutex('a', options)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }))
  })

  it('is 0 for tryAcquire() whatever the client and the lock say', async () => {
    const other = await client()
    await other.mutex('a').acquire()
    const locks = await client({ waitMs: 60_000 })
    expect(await locks.mutex('a', { waitMs: 60_000 }).tryAcquire()).toBe(null)
  })
})

describe('runIfFree()', () => {
  it('runs the work if the lock is free, and gives its value', async () => {
    const locks = await client()
    expect(await locks.mutex('a').runIfFree((hold) => hold.resource)).toEqual({ ran: true, value: 'a' })
    expect(await locks.mutex('a').isLocked()).toBe(false)
  })

  it('does nothing if others hold it, and does not wait', async () => {
    const other = await client()
    const hold = await other.mutex('a').acquire()
    const locks = await client({ waitMs: 60_000 })
    let began = false
    const work = (): void => {
      began = true
    }
    expect(await locks.mutex('a').runIfFree(work)).toEqual({ ran: false })
    expect(began).toBe(false)
    const later = locks.mutex('a').runIfFree(work, { waitMs: 60_000 })
    await hold.release()
    expect(await passing(later)).toEqual({ ran: true, value: undefined })
  })

  it('rejects with the error of the work, also if that is a timeout of another lock', async () => {
    const other = await client()
    await other.mutex('b').acquire()
    const locks = await client()
    const nested = locks.mutex('a').runIfFree(() => locks.mutex('b').acquire({ waitMs: 0 }))
    await expect(nested).rejects.toMatchObject({ code: 'ACQUIRE_TIMEOUT', resource: 'b' })
    expect(await locks.mutex('a').isLocked()).toBe(false)
  })
})

describe('isLocked()', () => {
  it('says whether anybody holds the lock', async () => {
    const locks = await client()
    const lock = locks.readWrite('a')
    expect(await lock.write().isLocked()).toBe(false)
    const hold = await lock.read().acquire()
    expect(await lock.write().isLocked()).toBe(true)
    await hold.release()
    expect(await lock.write().isLocked()).toBe(false)
  })
})

describe('a hold as text', () => {
  it('has the name, the fence and the time left, and not the claim', async () => {
    const locks = await client({ ttlMs: 60_000 })
    const hold = await locks.mutex('a').acquire()
    const summary = { resource: 'a', fence: String(hold.fence), isHeld: true }
    expect(JSON.parse(JSON.stringify({ hold }))).toMatchObject({ hold: summary })
    expect(inspect(hold)).toContain(`fence: '${hold.fence}'`)
    expect(inspect(hold)).toMatch(/remainingMs: \d+/)
    expect(inspect(hold)).not.toContain('claim')
    await hold.release()
    expect(hold.toJSON()).toEqual({ ...summary, remainingMs: 0, isHeld: false })
  })

  it('is its own for a leader, a writer and a re-entered lock', async () => {
    const locks = await client()
    const leadership = await locks.election('office').campaign()
    expect(inspect(leadership)).toContain("resource: 'office'")
    const writer = await locks.readWrite('rw').write().acquire()
    expect(writer.toJSON()).toMatchObject({ resource: 'rw', isHeld: true })
    const mutex = locks.mutex('a', { reentrant: true })
    await mutex.run(async (outer) => {
      const inner = await mutex.acquire()
      await inner.release()
      expect([inner.toJSON().isHeld, outer.toJSON().isHeld]).toEqual([false, true])
    })
  })

  it('has no fence where the store mints none', async () => {
    const locks = await createLocks(new Unfenced(memoryBackend(store)), {}, new VirtualRuntime(time))
    opened.push(locks)
    const hold = await locks.mutex('a').acquire()
    expect(hold.toJSON().fence).toBe(null)
    expect(inspect(hold)).toContain('fence: null')
  })
})

describe('a timeout', () => {
  it('suggests `reentrant` if the same client holds the mutex', async () => {
    const locks = await client()
    const mutex = locks.mutex('a')
    const inside = passing(mutex.run(() => mutex.run(() => 0, { waitMs: 1 })))
    await expect(inside).rejects.toThrow(/reentrant: true/)
  })

  it('does not if another client does, or if the mutex is re-entrant', async () => {
    const other = await client()
    const hold = await other.mutex('a').acquire()
    const locks = await client()
    await expect(passing(locks.mutex('a').acquire({ waitMs: 1 }))).rejects.not.toThrow(/reentrant/)
    const again = passing(other.mutex('a', { reentrant: true }).acquire({ waitMs: 1 }))
    await expect(again).rejects.not.toThrow(/reentrant/)
    await hold.release()
  })
})
