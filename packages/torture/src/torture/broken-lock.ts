/** A lock that is none: everybody gets it at once. With it a run must fail, or the run proves nothing. */

import type { AcquireOptions, Hold, Lockable } from 'holdfast'

export function brokenLock<O extends AcquireOptions>(name: string, ttlMs: number): Lockable<Hold, O> {
  const acquire = (): Promise<Hold> => Promise.resolve(brokenHold(name, ttlMs))
  return {
    name,
    acquire,
    tryAcquire: acquire,
    run: async (fn) => await fn(await acquire()),
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
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}
