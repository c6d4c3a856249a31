/** The options that decide how long a lock is held: `minHoldMs`, `maxHoldMs`, a fixed lease; and notes. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { AcquireOptions } from 'holdfast'
import type { NamePlan } from '../names.js'
import type { RecordedHold } from '../recorded-lock.js'
import { workAlone } from '../section.js'
import type { Bench } from './bench.js'

export async function useOptions(bench: Bench, plan: NamePlan): Promise<void> {
  const { random, scene, caller } = bench.setup
  const way = random.fraction()
  if (way < 0.3) return await hold(bench, plan, { minHoldMs: random.whole(60, 100) })
  if (way < 0.5) return await hold(bench, plan, { maxHoldMs: random.whole(5, 40) })
  if (way < 0.7) return await hold(bench, plan, { renew: false })
  if (way < 0.72) return await outlive(bench, plan)
  await using held = await bench.lockOf(plan).acquire({ note: caller.p })
  if (random.chance(0.3)) await lookAtNote(bench, held, caller.p)
  await workAlone(held, scene, random)
}

async function hold(bench: Bench, plan: NamePlan, options: AcquireOptions): Promise<void> {
  const { random, scene } = bench.setup
  await using held = await bench.lockOf(plan).acquire(options)
  await workAlone(held, scene, random)
}

/** Works on for longer than a lease that is not renewed. The loss must come, and must be reported. */
async function outlive(bench: Bench, plan: NamePlan): Promise<void> {
  const { scene } = bench.setup
  await using held = await bench.lockOf(plan).acquire({ renew: false })
  // A server whose clock was set back while the caller waited keeps the lease for longer, and says so.
  await sleep(Math.max(scene.ttlMs, held.remainingMs) * 1.1)
  if (held.isHeld) bench.complain(plan.name, 'A lease that is not renewed was still good after its end.')
}

/** What others see of a lock has the note of its holder. */
async function lookAtNote(bench: Bench, held: RecordedHold, note: string): Promise<void> {
  const { locks } = bench.setup
  if (locks.guarantees.shows !== 'claims') return
  const isShown = await bench.isShown(held, async () => {
    const { holders } = await locks.inspect(held.resource)
    return holders.some((holder) => holder.note === note)
  })
  if (!isShown) bench.complain(held.short, 'inspect() does not show the note of the holder.')
}
