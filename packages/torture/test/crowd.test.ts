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
      const child = children.start('crowd', [store, join(folder, 'locks.db'), HOLDS, TTL_MS])
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
      expect(crowd.crowded.p99Ms).toBeLessThanOrEqual(crowd.idle.p99Ms + EXTRA_P99_MS)
    },
    300_000,
  )
})
