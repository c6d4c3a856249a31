/** Elections: one leader at a time, which all can see. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Election } from 'holdfast'
import { CalledOff } from '../caller.js'
import type { NamePlan } from '../names.js'
import type { RecordedHold } from '../recorded-lock.js'
import { workAlone } from '../section.js'
import type { Bench } from './bench.js'

const OBSERVED_MS = 50

export async function useElection(bench: Bench, plan: NamePlan): Promise<void> {
  const { locks, random, scene, caller } = bench.setup
  const election = locks.election(bench.fullName(plan.name))
  if (random.chance(0.15)) return await observe(bench, election)
  await using led = await bench.recorded(election, plan.name).acquire({ note: caller.p })
  if (random.chance(0.3)) await lookAtLeader(bench, election, led)
  await workAlone(led, scene, random)
}

/** While a leader leads, `leader()` shows it. */
async function lookAtLeader(bench: Bench, election: Election, led: RecordedHold): Promise<void> {
  const { locks, fenced } = bench.setup
  if (locks.guarantees.shows !== 'claims') return
  let shown = 'no leader'
  const isShown = await bench.isShown(led, async () => {
    const leader = await election.leader()
    shown = leader?.note ?? 'no leader'
    return leader !== null && leader.note === led.p && (!fenced || leader.fence === led.fence)
  })
  if (!isShown) bench.complain(led.short, `${led.p} leads, and leader() shows ${shown}.`)
}

/** Looks once with a signal that outlives the look, and then at some changes until the caller has seen enough. */
async function observe({ setup: { lasting, locks } }: Bench, election: Election): Promise<void> {
  if (locks.guarantees.shows !== 'claims') return await sleep(1)
  for await (const _ of election.observe({ signal: lasting })) break
  const enough = new CalledOff()
  const over = new AbortController()
  const timer = setTimeout(() => over.abort(enough), OBSERVED_MS)
  try {
    for await (const _ of election.observe({ everyMs: 10, signal: over.signal }));
  } catch (error) {
    if (error !== enough) throw error
  } finally {
    clearTimeout(timer)
  }
}
