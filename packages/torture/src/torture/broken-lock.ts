/** Locks that are broken on purpose. With each of them a run must fail, or the run proves nothing. */

import type { AcquireOptions, Hold, Lockable } from 'holdfast'
import type { Breakage } from './protocol.js'

/** The lock as the breakage has it: some breakages are of the store, and leave the lock as it is. */
export function breakLock<O extends AcquireOptions>(
  lock: Lockable<Hold, O>,
  breakage: Breakage | null,
  { short, ttlMs }: { readonly short: string; readonly ttlMs: number },
): Lockable<Hold, O> {
  if (breakage === 'no-lock') return brokenLock(lock.name, ttlMs)
  if (breakage === 'second-leader') return short.startsWith('election') ? brokenLock(lock.name, ttlMs) : lock
  if (breakage === 'swallowed-loss') return swallowing(lock)
  if (breakage === 'leaked-listener') return leaking(lock)
  return breakage === 'no-min-hold' ? hasty(lock) : lock
}

/** Every caller gets it at once. */
function brokenLock<O extends AcquireOptions>(name: string, ttlMs: number): Lockable<Hold, O> {
  const acquire = (): Promise<Hold> => Promise.resolve(brokenHold(name, ttlMs))
  return {
    name,
    acquire,
    tryAcquire: acquire,
    run: async (fn) => await fn(await acquire()),
  }
}

/** `run()` returns the value of the work although the lock was lost meanwhile. */
function swallowing<O extends AcquireOptions>(lock: Lockable<Hold, O>): Lockable<Hold, O> {
  return {
    ...sameAs(lock),
    run: async (fn, options) => {
      const hold = await lock.acquire(options)
      try {
        return await fn(hold)
      } finally {
        await hold.release()
      }
    },
  }
}

/** Every acquisition leaves a listener on the signal of its caller. */
function leaking<O extends AcquireOptions>(lock: Lockable<Hold, O>): Lockable<Hold, O> {
  return {
    ...sameAs(lock),
    acquire: async (options) => {
      const hold = await lock.acquire(options)
      options?.signal?.addEventListener('abort', () => void hold.release())
      return hold
    },
  }
}

/** A shortest time to hold is ignored. */
function hasty<O extends AcquireOptions>(lock: Lockable<Hold, O>): Lockable<Hold, O> {
  return {
    ...sameAs(lock),
    acquire: (options) => lock.acquire(options === undefined ? options : { ...options, minHoldMs: 0 }),
  }
}

function sameAs<O extends AcquireOptions>(lock: Lockable<Hold, O>): Lockable<Hold, O> {
  return {
    name: lock.name,
    acquire: (options) => lock.acquire(options),
    tryAcquire: (options) => lock.tryAcquire(options),
    run: (fn, options) => lock.run(fn, options),
  }
}

function brokenHold(resource: string, ttlMs: number): Hold {
  const deadline = performance.now() + ttlMs * 100
  return {
    resource,
    deadline,
    // The same for everybody, so that no register refuses it either.
    fence: 1n,
    signal: new AbortController().signal,
    remainingMs: ttlMs,
    isHeld: true,
    assertHeld: () => undefined,
    extend: () => Promise.resolve(),
    release: () => Promise.resolve('released'),
    toJSON: () => ({ resource, fence: '1', remainingMs: ttlMs, isHeld: true }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}
