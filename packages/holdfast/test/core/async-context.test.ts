// @module-tag exclusion
import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, expect, it } from 'vitest'
import { within } from '../../../../test/support/wait.js'
import { MemoryStore, memoryBackend } from '../../src/backends/memory/backend.js'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { EVENTS_CHANNEL } from '../../src/client/channel-reporter.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import { systemRuntime } from '../../src/client/system.js'
import type { Claim, Patience, Sink, Verdict } from '../../src/core/backend.js'
import type { HoldfastEvent } from '../../src/core/events.js'
import { createIdempotency } from '../../src/idempotency/idempotency.js'
import { RelayBackend } from '../../src/testing/conformance/relay-backend.js'

const request = new AsyncLocalStorage<string>()

/** Notes in which context the store is opened and asked. */
class Noting extends RelayBackend {
  readonly seen: [string, string | undefined][] = []

  override open(sink: Sink): Promise<void> {
    this.seen.push(['open', request.getStore()])
    return super.open(sink)
  }

  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    this.seen.push([claim.note ?? '', request.getStore()])
    return super.attempt(claim, patience)
  }
}

/** Acquires a lock with a short lease, so that the one timer of the client is started by this call. */
async function armTimer(locks: Locks): Promise<void> {
  await locks.mutex('short', { ttlMs: 50 }).acquire()
}

describe('a lock that is lost', () => {
  it('aborts its signal in the async context of its holder, though the timer was started by another caller', async () => {
    const locks = await createLocks(memoryBackend(new MemoryStore()))
    const account = locks.mutex('account', { reentrant: true })
    const lost = request.run('b', async () => {
      const hold = await locks.mutex('other', { maxHoldMs: 150 }).acquire()
      return await new Promise<[string | undefined, boolean]>((resolve) => {
        hold.signal.addEventListener('abort', () => {
          const store = request.getStore()
          // In the context of the other caller this would re-enter the lock that it holds.
          void account.tryAcquire().then((entered) => resolve([store, entered !== null]))
        })
      })
    })
    const seen = request.run('a', () =>
      account.run(async () => {
        await armTimer(locks)
        return await within('the signal of the other caller aborts', lost)
      }),
    )
    expect(await seen).toEqual(['b', false])
    await locks.close()
  })

  it('aborts the signal of run() in the async context of that run', async () => {
    const idempotency = await createIdempotency(memoryRecords('async-context'), {
      allowVolatile: true,
    })
    const never = new Promise<never>(() => {})
    const target = (key: string) => ({ scope: { tenant: 't', operation: 'pay' }, key, input: {} })
    const seen = new Promise<string | undefined>((resolve) => {
      request.run('b', () => {
        const work = ({ signal }: { readonly signal: AbortSignal }): Promise<never> => {
          signal.addEventListener('abort', () => resolve(request.getStore()))
          return never
        }
        void idempotency.run(target('b'), work, { maxRunMs: 200 }).catch(() => {})
      })
    })
    // A shorter lease is renewed earlier, so that this call starts the one timer of the client.
    request.run('a', () => void idempotency.run(target('a'), () => never, { leaseMs: 100 }).catch(() => {}))
    expect(await within('the signal of the run aborts', seen)).toBe('b')
    await idempotency.close()
  })

  it('is published in the async context of its holder', async () => {
    const locks = await createLocks(memoryBackend(new MemoryStore()))
    const lost = new Promise<string | undefined>((resolve) => {
      const note = (event: unknown): void => {
        const { type, resource } = event as HoldfastEvent & { readonly resource?: string }
        if (type !== 'lost' || resource !== 'other') return
        unsubscribe(EVENTS_CHANNEL, note)
        resolve(request.getStore())
      }
      subscribe(EVENTS_CHANNEL, note)
    })
    await request.run('b', () => locks.mutex('other', { maxHoldMs: 100 }).acquire())
    await request.run('a', () => armTimer(locks))
    expect(await within('the event is published', lost)).toBe('b')
    await locks.close()
  })
})

describe('what the library does for itself', () => {
  it('asks the store for a waiter outside of the async context of the caller that gives the lock back', async () => {
    const backend = new Noting(memoryBackend(new MemoryStore()))
    const locks = await request.run('first request', () => createLocks(backend))
    const hold = await request.run('a', () => locks.mutex('x').acquire({ note: 'one' }))
    // Another note is another claim, so that the first cannot simply be handed over.
    const waiting = request.run('b', async () => {
      const second = await locks.mutex('x').acquire({ note: 'two' })
      return [second, request.getStore()] as const
    })
    await request.run('a', () => hold.release())
    const [second, store] = await within('the waiter has it', waiting)
    expect(store).toBe('b')
    await second.release()
    await locks.close()
    expect(new Set(backend.seen.map(([, where]) => where))).not.toContain('first request')
    expect(backend.seen.filter(([note, where]) => note === 'two' && where === 'a')).toEqual([])
    expect(backend.seen).toContainEqual(['one', 'a'])
  })

  it('runs timers outside of the async context of the caller that starts them', async () => {
    const seen = new Promise<string | undefined>((resolve) => {
      request.run('a', () => systemRuntime.timers.start(1, () => resolve(request.getStore()), true))
    })
    expect(await seen).toBe(undefined)
  })
})
