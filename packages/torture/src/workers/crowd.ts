/**
 * Keeps a great many holds alive in one process and measures what that does to its event loop.
 *
 *     crowd.js memory|sqlite PATH COUNT TTL_MS MEASURE_MS
 */

import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLocks, type Hold } from 'holdfast'
import type { Backend, RenewRequest } from 'holdfast/backend'
import { memoryBackend } from 'holdfast/memory'
import { sqliteBackend } from 'holdfast/sqlite'
import { argument, tell } from './shared/parent.js'

export interface LoopDelay {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

export interface Crowd {
  readonly kind: 'crowd'
  readonly loadingMs: number
  readonly idle: LoopDelay
  readonly crowded: LoopDelay
  readonly held: number
  readonly measuredMs: number
  readonly requests: number
  readonly claims: number
  /** The most claims of one request. */
  readonly claimsMax: number
  readonly lost: number
}

const RESOLUTION_MS = 2
const CHUNK = 50

const count = Number(argument(2))
const ttlMs = Number(argument(3))
const measureMs = Number(argument(4))

/** Counts the renewals that reach the store. The proxy leaves everything else, private fields included, as it is. */
class RenewalCounter {
  requests = 0
  claims = 0
  claimsMax = 0

  wrap(backend: Backend): Backend {
    return new Proxy(backend, {
      get: (target, key) => {
        const member: unknown = Reflect.get(target, key, target)
        if (key === 'renew') return (requests: readonly RenewRequest[]) => this.#renew(target, requests)
        return typeof member === 'function' ? member.bind(target) : member
      },
    })
  }

  reset(): void {
    this.requests = 0
    this.claims = 0
    this.claimsMax = 0
  }

  #renew(target: Backend, requests: readonly RenewRequest[]): ReturnType<Backend['renew']> {
    this.requests += 1
    this.claims += requests.length
    this.claimsMax = Math.max(this.claimsMax, requests.length)
    return target.renew(requests)
  }
}

async function loopDelayDuring(ms: number): Promise<LoopDelay> {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  histogram.enable()
  await sleep(ms)
  histogram.disable()
  return delayOf(histogram)
}

function delayOf(histogram: IntervalHistogram): LoopDelay {
  const ms = (percent: number): number => histogram.percentile(percent) / 1e6
  return { p50Ms: ms(50), p99Ms: ms(99), maxMs: ms(100) }
}

const counter = new RenewalCounter()
const store = argument(0) === 'memory' ? memoryBackend() : sqliteBackend({ path: argument(1) })
const locks = await createLocks(counter.wrap(store), { ttlMs })
const idle = await loopDelayDuring(measureMs)

const loadingSince = performance.now()
const holds: Hold[] = []
while (holds.length < count) {
  const names = Array.from({ length: CHUNK }, (_, index) => `crowd:${holds.length + index}`)
  holds.push(...(await Promise.all(names.map((name) => locks.mutex(name).acquire()))))
  await sleep(1)
}
const loadingMs = performance.now() - loadingSince

counter.reset()
const since = performance.now()
const crowded = await loopDelayDuring(measureMs)
const measuredMs = performance.now() - since
const { requests, claims, claimsMax } = counter
const held = holds.filter((hold) => hold.isHeld).length
await tell<Crowd>({
  kind: 'crowd',
  loadingMs,
  idle,
  crowded,
  held,
  measuredMs,
  requests,
  claims,
  claimsMax,
  lost: holds.length - held,
})
process.exit(0)
