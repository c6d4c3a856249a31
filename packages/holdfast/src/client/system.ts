/** The real clock, timers, chance and identity: the only place where the library takes them from the system. */

import { randomBytes, randomInt } from 'node:crypto'
import { hostname, uptime } from 'node:os'
import { performance } from 'node:perf_hooks'
import { pid } from 'node:process'
import { asyncContexts } from '../core/async-context.js'
import type { Runtime, Timer } from '../core/runtime.js'
import { TIMER_MAX_MS } from '../core/timing.js'
import { SharedTimers, type StartRaw } from './shared-timers.js'

const FRACTION_GRAIN = 2 ** 32
const ID_LENGTH = 32
const IDS_AT_ONCE = 256

/** Random bytes, and writing them as text, are cheap by the page and dear by the dozen. Each digit is used once. */
let pool = ''
let used = 0

function freshId(): string {
  if (used === pool.length) {
    pool = randomBytes((ID_LENGTH / 2) * IDS_AT_ONCE).toString('hex')
    used = 0
  }
  used += ID_LENGTH
  return pool.slice(used - ID_LENGTH, used)
}

/** From this length on a timer is most likely a deadline, which is set for every request and hardly ever met. */
const SHARED_FROM_MS = 1_000

const shared = new Map<number, SharedTimers>()

/** One timer serves many callers, so that it has the async context of none of them. */
const startRaw: StartRaw = (run, afterMs) => asyncContexts.outside(() => setTimeout(run, afterMs))

function startShared(afterMs: number, run: () => void, keepAlive: boolean): Timer {
  let timers = shared.get(afterMs)
  if (timers === undefined) {
    const forget = (): void => void shared.delete(afterMs)
    timers = new SharedTimers(afterMs, () => performance.now(), startRaw, forget)
    shared.set(afterMs, timers)
  }
  return timers.start(run, keepAlive)
}

export const systemRuntime: Runtime = {
  identity: { host: hostname(), pid },
  clock: {
    monotonicMs: () => performance.now(),
    wallMs: () => Date.now(),
    uptimeMs: () => uptime() * 1_000,
  },
  timers: {
    start(afterMs, run, keepAlive) {
      // Node fires a timer that is longer than that at once.
      if (afterMs >= SHARED_FROM_MS) return startShared(Math.min(afterMs, TIMER_MAX_MS), run, keepAlive)
      const timer = asyncContexts.outside(() => setTimeout(run, afterMs))
      if (!keepAlive) timer.unref()
      return { cancel: () => clearTimeout(timer) }
    },
  },
  random: {
    id: freshId,
    fraction: () => randomInt(FRACTION_GRAIN) / FRACTION_GRAIN,
  },
  contexts: asyncContexts,
}
