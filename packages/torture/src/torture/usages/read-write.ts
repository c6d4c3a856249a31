/** Read-write locks: readers beside each other, writers alone, and writers that become readers. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Hold } from 'holdfast'
import type { NamePlan } from '../names.js'
import { workAlone, workAWhile } from '../section.js'
import type { Bench } from './bench.js'

export async function useReadWrite(bench: Bench, plan: NamePlan): Promise<void> {
  const { locks, scene, random } = bench.setup
  const lock = locks.readWrite(bench.fullName(plan.name))
  const way = random.fraction()
  if (way < 0.1) return await downgrade(bench, plan)
  if (way < 0.3) {
    await using hold = await bench.recorded(lock.write(), plan.name).acquire()
    return await workAlone(hold, scene, random)
  }
  await using hold = await bench.recorded(lock.read(), plan.name, { mode: 'shared' }).acquire()
  await workAWhile(hold, scene, random)
}

async function downgrade(bench: Bench, plan: NamePlan): Promise<void> {
  const { locks, scene, random } = bench.setup
  const lock = locks.readWrite(bench.fullName(plan.name)).write()
  await using hold = await bench.recorded(lock, plan.name).acquire()
  await workAlone(hold, scene, random)
  const { inner } = hold
  // A lock that is broken on purpose has nothing to downgrade.
  if (!canDowngrade(inner)) return
  await using lighter = await hold.downgrade(() => inner.downgrade())
  await workAWhile(lighter, scene, random)
}

function canDowngrade(hold: Hold): hold is Hold & { downgrade(): Promise<Hold> } {
  return 'downgrade' in hold
}

/** Nobody writes, so no reader is ever in the way of another. */
export async function useReaders(bench: Bench, plan: NamePlan): Promise<void> {
  const { scene, random } = bench.setup
  await using hold = await bench.lockOf(plan).acquire()
  if (random.chance(0.5)) await sleep(random.between(0, 5))
  await workAWhile(hold, scene, random)
}
