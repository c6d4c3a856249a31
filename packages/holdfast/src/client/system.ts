/** The real clock, timers, chance and identity: the only place where the library takes them from the system. */

import { randomBytes, randomInt } from 'node:crypto'
import { hostname, uptime } from 'node:os'
import { performance } from 'node:perf_hooks'
import { pid } from 'node:process'
import type { Runtime, Timer } from '../core/runtime.js'
import { SharedTimers } from './shared-timers.js'

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

function startShared(afterMs: number, run: () => void, keepAlive: boolean): Timer {
  let timers = shared.get(afterMs)
  if (timers === undefined) {
    const forget = (): void => void shared.delete(afterMs)
    timers = new SharedTimers(afterMs, () => performance.now(), setTimeout, forget)
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
      if (afterMs >= SHARED_FROM_MS) return startShared(afterMs, run, keepAlive)
      const timer = setTimeout(run, afterMs)
      if (!keepAlive) timer.unref()
      return { cancel: () => clearTimeout(timer) }
    },
  },
  random: {
    id: freshId,
    fraction: () => randomInt(FRACTION_GRAIN) / FRACTION_GRAIN,
  },
}
