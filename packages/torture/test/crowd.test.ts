import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Crowd, LoopDelay } from '../src/workers/crowd.js'
import { Children } from './children.js'

const HOLDS = 10_000
const TTL_MS = 3_000
/** How much later than in the idle process the event loop may be, in one of a hundred cases. */
const EXTRA_P99_MS = 15
const MEASUREMENTS_MAX = 3

let folder: string
let children: Children

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-crowd-'))
  children = new Children()
})

afterEach(async () => {
  await children.stopAll()
  await rm(folder, { recursive: true, force: true })
})

function show({ p50Ms, p99Ms, maxMs }: LoopDelay): string {
  return `p50 ${p50Ms.toFixed(1)}, p99 ${p99Ms.toFixed(1)}, max ${maxMs.toFixed(1)} ms`
}

describe('a crowd of holds in one process', () => {
  it.each(['memory', 'sqlite'])(
    'is kept on %s without holding up the event loop',
    async (store) => {
      let extraMs = Number.POSITIVE_INFINITY
      // What else the machine does only ever adds to the delay, so the least of a few measurements is the nearest to ours.
      for (let measured = 0; measured < MEASUREMENTS_MAX && extraMs > EXTRA_P99_MS; measured += 1) {
        const { idle, crowded } = await measure(store, join(folder, `${measured}.db`))
        extraMs = Math.min(extraMs, crowded.p99Ms - idle.p99Ms)
      }
      expect(extraMs).toBeLessThanOrEqual(EXTRA_P99_MS)
    },
    300_000,
  )
})

async function measure(store: string, path: string): Promise<Crowd> {
  const child = children.start('crowd', [store, path, HOLDS, TTL_MS])
  const crowd = await child.hear<Crowd>('crowd')
  const perSecond = crowd.requests / (crowd.measuredMs / 1_000)
  console.log(
    `crowd on ${store}: ${crowd.held} held, ${crowd.lost} lost; loaded in ${(crowd.loadingMs / 1_000).toFixed(1)} s; ` +
      `${perSecond.toFixed(1)} requests/s with ${(crowd.claims / crowd.requests).toFixed(1)} claims each; ` +
      `loop delay idle ${show(crowd.idle)}, crowded ${show(crowd.crowded)}`,
  )
  expect(crowd.held).toBe(HOLDS)
  expect(crowd.lost).toBe(0)
  // Each claim is renewed at a third of its lease, and never alone.
  expect(crowd.claims / HOLDS).toBeGreaterThan(5)
  expect(crowd.claims / crowd.requests).toBeGreaterThan(10)
  return crowd
}
