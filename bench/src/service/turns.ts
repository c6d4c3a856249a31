/** Many callers that wait for few names, take turns, and come back to the end of the line. */

import { sleep } from '../group.js'

/** How one caller gets the lock of a name, and what gives it back and says whether it was still there. */
export type Take = (caller: number, name: string) => Promise<() => Promise<boolean>>

export interface Crowd {
  readonly names: number
  readonly callersPerName: number
  /** For how long each keeps what it has. */
  readonly holdMs: number
  /** For how long callers come back. After that each has one more turn. */
  readonly forMs: number
  /** Nobody has to wait for longer than this once no one comes back. */
  readonly patienceMs: number
}

export interface Turns {
  /** From when somebody began to give a name back until the next one had it. */
  readonly handOverMs: readonly number[]
  readonly turns: number
  /** Callers that did not get their last turn. */
  readonly lost: number
  /** How often a name was had by two. */
  readonly overlaps: number
  readonly leastTurns: number
  /** Holds that were not there any more, or not confirmed to be, when they were given back. */
  readonly unreturned: number
}

interface Line {
  givenBackAt: number | null
  holders: number
}

export async function takeTurns(crowd: Crowd, take: Take): Promise<Turns> {
  const { names, callersPerName, holdMs, forMs, patienceMs } = crowd
  const handOverMs: number[] = []
  const turnsOf = Array.from({ length: names * callersPerName }, () => 0)
  const isDone = turnsOf.map(() => false)
  let overlaps = 0
  let unreturned = 0
  const until = performance.now() + forMs
  const caller = async (index: number, line: Line, name: string): Promise<void> => {
    do {
      const giveBack = await take(index, name)
      const gotAt = performance.now()
      if (line.holders > 0) overlaps += 1
      line.holders += 1
      if (line.givenBackAt !== null) handOverMs.push(gotAt - line.givenBackAt)
      await sleep(holdMs)
      line.holders -= 1
      line.givenBackAt = performance.now()
      if (!(await giveBack())) unreturned += 1
      turnsOf[index] = (turnsOf[index] ?? 0) + 1
    } while (performance.now() < until)
    isDone[index] = true
  }
  const callers: Promise<void>[] = []
  for (let at = 0; at < names; at += 1) {
    const line: Line = { givenBackAt: null, holders: 0 }
    for (let each = 0; each < callersPerName; each += 1) {
      callers.push(caller(at * callersPerName + each, line, `crowd-${at}`))
    }
  }
  await Promise.race([Promise.all(callers), sleep(forMs + patienceMs)])
  return {
    handOverMs,
    turns: turnsOf.reduce((sum, turns) => sum + turns, 0),
    lost: isDone.filter((done) => !done).length,
    overlaps,
    leastTurns: Math.min(...turnsOf),
    unreturned,
  }
}
