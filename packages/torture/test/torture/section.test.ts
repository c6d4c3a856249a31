// @module-tag exclusion
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SeededRandom } from 'holdfast/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { nowMicros } from '../../src/history/recorder.js'
import { Tripwire } from '../../src/oracles/tripwire.js'
import type { RecordedHold } from '../../src/torture/recorded-lock.js'
import { type Scene, workAlone } from '../../src/torture/section.js'

const SECOND = 1_000_000

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-section-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** The notes of a caller that enters while another one is inside, and whose hold ends at its first look. */
async function notesOf(isHeld: boolean): Promise<readonly string[]> {
  const tripwire = new Tripwire(folder)
  expect(tripwire.enter('a', 'w2.4', nowMicros() + 60 * SECOND, nowMicros)).toBeNull()
  const notes: string[] = []
  const diary = { note: (_p: string, f: string) => notes.push(f) }
  const hold = {
    short: 'a',
    p: 'w1.1',
    until: nowMicros() + 60 * SECOND,
    isHeld,
    whenLost: null,
    signal: AbortSignal.abort(),
    assertHeld: () => {
      throw new Error('lost')
    },
  }
  const scene = { diary, tripwire, register: null, ttlMs: 1_000 }
  const working = workAlone(hold as unknown as RecordedHold, scene as unknown as Scene, new SeededRandom(1))
  await expect(working).rejects.toThrow('lost')
  return notes
}

test('a caller that holds the lock trips over another one inside', async () => {
  expect(await notesOf(true)).toEqual(['tripped'])
})

test('a caller whose lease ended before it entered does not', async () => {
  expect(await notesOf(false)).toEqual([])
})
