/** Elections: one leader at a time, which all can see. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Election } from 'holdfast'
import type { NamePlan } from '../names.js'
import type { RecordedHold } from '../recorded-lock.js'
import { workAlone } from '../section.js'
import type { Bench } from './bench.js'

/** How many changes an observer looks at before it stops. */
const CHANGES = 2

export async function useElection(bench: Bench, plan: NamePlan): Promise<void> {
  const { locks, random, scene, caller } = bench.setup
  const election = locks.election(bench.fullName(plan.name))
  if (random.chance(0.15)) return await observe(bench, election)
  await using led = await bench.recorded(election, plan.name).acquire({ note: caller.p })
  if (random.chance(0.3)) await lookAtLeader(bench, election, led)
  await workAlone(led, scene, random)
}

/** While a leader leads, everybody who looks sees this leader. */
async function lookAtLeader(bench: Bench, election: Election, led: RecordedHold): Promise<void> {
  const { locks, fenced } = bench.setup
  if (locks.guarantees.shows !== 'claims') return
  const leader = await election.leader()
  const isShown = leader !== null && leader.note === led.p && (!fenced || leader.fence === led.fence)
  if (!isShown && led.isHeld) {
    bench.complain(led.short, `${led.p} leads, and leader() shows ${leader?.note ?? 'no leader'}.`)
  }
}

async function observe({ setup: { lasting, locks } }: Bench, election: Election): Promise<void> {
  if (locks.guarantees.shows !== 'claims') return await sleep(1)
  let changes = 0
  const enough = new AbortController()
  const timer = setTimeout(() => enough.abort(), 50)
  try {
    for await (const _ of election.observe({ everyMs: 10, signal: lasting })) {
      changes += 1
      if (changes === CHANGES || enough.signal.aborted) break
    }
  } finally {
    clearTimeout(timer)
  }
}
