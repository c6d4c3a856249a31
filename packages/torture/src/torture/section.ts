/** What a caller does while it holds a lock that nobody else may hold. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededRandom } from 'holdfast/testing'
import type { Micros } from '../history/format.js'
import { nowMicros } from '../history/recorder.js'
import type { PlainAdd, PlainSet } from '../oracles/plain-set.js'
import type { RegisterClient } from '../oracles/register-client.js'
import type { Tripwire } from '../oracles/tripwire.js'
import type { Diary } from './diary.js'
import { registerOf, setOf } from './names.js'
import type { RecordedHold } from './recorded-lock.js'

/** How long a set grows before the next one is begun. */
const EPOCH_MICROS = 20_000_000

export interface Scene {
  readonly diary: Diary
  readonly tripwire: Tripwire
  readonly plainSet: PlainSet
  /** null where the store mints no fences. */
  readonly register: RegisterClient | null
  readonly ttlMs: number
  readonly startedAt: Micros
}

/** Alone by right: trips the wire, works, adds to the sets, writes to the register, and looks at its hold all the while. */
export async function workAlone(hold: RecordedHold, scene: Scene, random: SeededRandom): Promise<void> {
  enter(hold, scene)
  try {
    await workAWhile(hold, scene, random)
    if (random.chance(0.5)) await addToPlainSet(hold, scene, random)
    if (scene.register !== null && random.chance(0.4))
      await addToFencedSet(hold, scene, scene.register, random)
    if (scene.register !== null && random.chance(0.4)) await writeToRegister(hold, scene, scene.register)
    if (random.chance(0.05)) await hold.extend()
    hold.assertHeld()
  } finally {
    leave(hold, scene)
  }
}

/** Beside others, within the limit: nothing to guard, but the hold is looked at all the same. */
export async function workAWhile(hold: RecordedHold, scene: Scene, random: SeededRandom): Promise<void> {
  const looks = random.whole(1, 3)
  const totalMs = lengthOf(scene.ttlMs, random)
  for (let look = 0; look < looks; look += 1) {
    await sleep(totalMs / looks, undefined, { signal: hold.signal }).catch(() => undefined)
    hold.assertHeld()
  }
}

/** Most sections are short, so that much happens; a few outlast a lease, so that renewals count. */
function lengthOf(ttlMs: number, random: SeededRandom): number {
  const kind = random.fraction()
  if (kind < 0.9) return random.between(0, 12)
  return kind < 0.99 ? random.between(10, 120) : random.between(ttlMs / 2, ttlMs * 1.4)
}

function enter(hold: RecordedHold, { tripwire, diary }: Scene): void {
  const other = tripwire.enter(hold.short, hold.p, hold.until, nowMicros)
  // The process may have stood still since its lock was granted. A hold that is good after the meeting was good at the meeting.
  if (other !== null && hold.isHeld) diary.note(hold.p, 'tripped', 'note', hold.short, { target: other })
  // Who has lost the lock is inside no more, however long it takes to notice.
  hold.whenLost = () => tripwire.leave(hold.short, hold.p)
}

function leave(hold: RecordedHold, { tripwire }: Scene): void {
  hold.whenLost = null
  tripwire.leave(hold.short, hold.p)
}

let elements = 0

function newElement(process: string): string {
  elements += 1
  return `${process}-${elements}`
}

function epochOf({ startedAt }: Scene): number {
  return Math.max(0, Math.floor((nowMicros() - startedAt) / EPOCH_MICROS))
}

async function addToPlainSet(hold: RecordedHold, scene: Scene, random: SeededRandom): Promise<void> {
  const { plainSet, diary } = scene
  const { p } = hold
  const element = newElement(diary.process)
  const set = setOf(hold.short, epochOf(scene))
  const add = { set, element, p, from: nowMicros() }
  diary.plainAdd({ ...add, to: add.from, outcome: 'open' })
  let outcome: PlainAdd['outcome'] = 'unwritten'
  try {
    const before = plainSet.read(set)
    await sleep(random.between(0, 4))
    hold.assertHeld()
    outcome = 'late'
    plainSet.write(set, [...before, element], p)
    // Asked of the clock, since the process may have stood still anywhere between the check and here.
    if (hold.isHeld) outcome = 'protected'
  } finally {
    diary.plainAdd({ ...add, to: nowMicros(), outcome })
  }
}

/** The same with the fence: the register refuses who comes late, so here every loss counts. */
async function addToFencedSet(
  hold: RecordedHold,
  scene: Scene,
  register: RegisterClient,
  random: SeededRandom,
): Promise<void> {
  const { diary } = scene
  const { p } = hold
  const k = `fenced-${setOf(hold.short, epochOf(scene))}`
  const fence = String(hold.fence)
  const read = await register.ask({ op: 'read', k, fence, who: p })
  if (read.error !== null) return refused(hold, scene, k, read.error)
  await sleep(random.between(0, 4))
  const element = newElement(diary.process)
  diary.note(p, 'add', 'invoke', k, { value: element, fence })
  const { error } = await register.ask({
    op: 'replace',
    k,
    fence,
    who: p,
    elements: [...read.elements, element],
  })
  if (error === null) diary.note(p, 'add', 'ok', k)
  else {
    diary.note(p, 'add', 'fail', k, { error })
    refused(hold, scene, k, error)
  }
}

async function writeToRegister(hold: RecordedHold, scene: Scene, register: RegisterClient): Promise<void> {
  const { diary } = scene
  const { p } = hold
  const k = registerOf(hold.short)
  const fence = String(hold.fence)
  hold.assertHeld()
  const value = newElement(diary.process)
  diary.note(p, 'write', 'invoke', k, { value, fence })
  const { error } = await register.ask({ op: 'write', k, fence, who: p, value })
  if (error === null) diary.note(p, 'write', 'ok', k)
  else {
    diary.note(p, 'write', 'fail', k, { error })
    refused(hold, scene, k, error)
  }
}

/**
 * A register that refuses a fence has seen a higher one. That is as it should be for who has lost the lock; but who
 * still holds it, by the clock and after the answer, has been overtaken.
 */
function refused(hold: RecordedHold, { diary }: Scene, k: string, error: string): void {
  if (!hold.isHeld) return
  const message = `${hold.p} holds ${hold.short} with fence ${hold.fence}, and ${k} refused it (${error}).`
  diary.complain('refused-while-held', hold.p, hold.short, message)
}
