import { describe, expect, it } from 'vitest'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { createLocks } from '../../src/client/client.js'
import type { Claim, Guarantees, Patience, Renewal, RenewRequest, Verdict } from '../../src/core/backend.js'
import { AcquireTimeoutError, ClosedError, OutcomeUnknownError } from '../../src/core/errors.js'
import { Standing } from '../../src/core/standing.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'
import { settle, VirtualRuntime, VirtualTime } from '../../src/testing/virtual-time.js'
import { claimOf } from '../support/claims.js'

/** Knows no line: whoever does not get it at once is refused, and has to ask again. */
class WithoutLine extends RelayBackend {
  attempts = 0

  override get guarantees(): Guarantees {
    return { ...super.guarantees, waiting: 'poll', fair: false }
  }

  override async attempt(_claim: Claim, _patience: Patience): Promise<Verdict> {
    this.attempts += 1
    return { kind: 'refused', retryAfterMs: null, holder: null }
  }
}

/** Cannot say of anybody whether it still stands. */
class Unsure extends RelayBackend {
  override async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return requests.map(() => 'unknown')
  }
}

/** Answers no attempt before the test says so, and then with an error. */
class CutOff extends RelayBackend {
  #fail: (error: Error) => void = () => {}

  override attempt(_claim: Claim, _patience: Patience): Promise<Verdict> {
    return new Promise((_, reject) => {
      this.#fail = reject
    })
  }

  cut(): void {
    const message = 'The server ended the connection before an answer came.'
    this.#fail(new OutcomeUnknownError(message, { resource: 'cut', backend: this.name }))
  }
}

describe('tryAcquire() whose request is cut off', () => {
  it('by close() rejects with ClosedError, whatever the store says of the request', async () => {
    const backend = new CutOff(memoryBackend(new MemoryStore()))
    const locks = await createLocks(backend)
    const trying = locks.mutex('cut').tryAcquire()
    const closing = locks.close()
    await settle()
    backend.cut()
    await expect(trying).rejects.toThrow(ClosedError)
    await closing
  })

  it('by its signal rejects with the reason of the signal, whatever the store says of the request', async () => {
    const backend = new CutOff(memoryBackend(new MemoryStore()))
    const locks = await createLocks(backend)
    const controller = new AbortController()
    const trying = locks.mutex('cut').tryAcquire({ signal: controller.signal })
    await settle()
    const reason = new Error('changed my mind')
    controller.abort(reason)
    backend.cut()
    await expect(trying).rejects.toBe(reason)
    await locks.close()
  })
})

describe('waiting', () => {
  it('begins to ask often, however long the process has been running, where the store knows no line', async () => {
    const time = new VirtualTime()
    await time.advance(3_600_000)
    const backend = new WithoutLine(memoryBackend(new MemoryStore({ nowMs: () => time.nowMs })))
    const locks = await createLocks(backend, {}, new VirtualRuntime(time))
    const pending = locks.mutex('a').tryAcquire({ waitMs: 60 })
    await time.advance(60)
    expect(await pending).toBeNull()
    expect(backend.attempts).toBeGreaterThan(12)
    await locks.close()
  })

  it('serves those who wait here once, and then others, when the store says that others wait', async () => {
    const time = new VirtualTime()
    const store = new MemoryStore({ nowMs: () => time.nowMs })
    const one = await createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
    const other = await createLocks(memoryBackend(store), {}, new VirtualRuntime(time))
    const served: string[] = []
    const caller = async (locks: typeof one, name: string, rounds: number): Promise<void> => {
      for (let round = 0; round < rounds; round += 1) {
        const hold = await locks.mutex('a').acquire()
        served.push(name)
        await settle()
        await hold.release()
      }
    }
    const all = Promise.all([
      ...['a1', 'a2', 'a3'].map((name) => caller(one, name, 20)),
      ...['b1', 'b2', 'b3'].map((name) => caller(other, name, 20)),
    ])
    // Nothing here takes any time, so without turns one of the two would come to its end before the other begins.
    await time.advance(1_000)
    await all
    const half = served.slice(0, served.length / 2)
    expect(half.filter((name) => name.startsWith('b')).length).toBeGreaterThan(half.length / 4)
    await one.close()
    await other.close()
  })
})

describe('a renewal that nobody can answer for', () => {
  it('is no loss and no credit: extend() rejects, and the hold ends in time', async () => {
    const time = new VirtualTime()
    const store = new MemoryStore({ nowMs: () => time.nowMs })
    const locks = await createLocks(
      new Unsure(memoryBackend(store)),
      { ttlMs: 1_000 },
      new VirtualRuntime(time),
    )
    const hold = await locks.mutex('a').acquire()
    await expect(hold.extend(5_000)).rejects.toBeInstanceOf(OutcomeUnknownError)
    expect(hold.signal.aborted).toBe(false)
    await time.advance(1_000)
    expect(hold.signal.aborted).toBe(true)
    await locks.close()
  })
})

describe('a claim in a store without fences', () => {
  it('counts on the last answer only, because its place may be a new one', () => {
    const standing = new Standing(claimOf('a'), true, 1_000, 0)
    standing.placed(null, 0, 30_000, 0)
    const before = standing.abortAt
    standing.placed(null, 10, 5_000, 0)
    expect(standing.abortAt).toBeLessThan(before)
  })
})

describe('an error that names the holder', () => {
  it('prints nothing raw that comes from the store', () => {
    const owner = { host: 'evil\u001b[2J\nhost', pid: 1, client: 'c' }
    const { message } = new AcquireTimeoutError(5, { owner, note: 'a\u001bb' }, { resource: 'r' })
    // oxlint-disable-next-line no-control-regex -- control characters are exactly what is looked for
    expect(message).not.toMatch(/[\u0000-\u001f]/)
    expect(message).toContain('evil')
  })
})
