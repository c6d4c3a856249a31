// @module-tag fencing
// @module-tag exclusion
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type Locks } from 'holdfast'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Acknowledged, Setback } from '../src/workers/fenced-counter.js'
import { FencedLog, type LogRecord } from '../src/workers/shared/fenced-log.js'
import { type Child, Children } from './children.js'

const PROCESSES = 8
const TTL_MS = 250
const KILL_EVERY_MS = 200
/** Every so many strikes the holder is not killed but stopped, for long enough to wake up as one who holds no more. */
const STOP_EVERY = 4
const STOPPED_MS = 3 * TTL_MS
const KILLS = 30
/** Only so that a run which gets nowhere ends; a good one is long over. */
const GIVE_UP_MS = 240_000

let folder: string
let children: Children
let locks: Locks

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-kill-'))
  children = new Children()
  locks = await connect(`sqlite:${join(folder, 'locks.db')}`)
})

afterEach(async () => {
  await children.stopAll()
  await locks.close()
  await rm(folder, { recursive: true, force: true })
})

interface Run {
  readonly killed: ReadonlySet<number>
  readonly acknowledged: readonly string[]
  readonly setbacks: ReadonlyMap<string, number>
}

/** Lets the workers count while the holder is killed again and again, and replaced. */
async function countUnderFire(logPath: string): Promise<Run> {
  const killed = new Set<number>()
  const stopped = new Set<number>()
  let strikes = 0
  const acknowledged: string[] = []
  const setbacks = new Map<string, number>()
  const onMessage = (message: object): void => {
    const heard = message as Acknowledged | Setback
    if (heard.kind === 'acknowledged') acknowledged.push(heard.operation)
    else if (heard.kind === 'setback') setbacks.set(heard.code, (setbacks.get(heard.code) ?? 0) + 1)
  }
  const start = (): unknown =>
    children.start('fenced-counter', [`sqlite:${join(folder, 'locks.db')}`, logPath, TTL_MS], onMessage)
  for (let started = 0; started < PROCESSES; started += 1) start()
  const since = performance.now()
  const elapsed = (): number => performance.now() - since
  // A worker that complains ends the run early: whatever it is, it is a defect.
  const mayGoOn = (): boolean => children.errors === '' && elapsed() < GIVE_UP_MS
  while (mayGoOn() && killed.size < KILLS) {
    await sleep(KILL_EVERY_MS)
    const { holders } = await locks.inspect('counter')
    const holder = children.running.find(({ pid }) => pid === holders[0]?.owner.pid)
    // A dead holder stays in the line until its lease is over; it cannot be killed a second time.
    if (holder === undefined || stopped.has(holder.pid)) continue
    strikes += 1
    if (strikes % STOP_EVERY === 0) {
      stopFor(holder, stopped)
      continue
    }
    await holder.kill()
    killed.add(holder.pid)
    start()
  }
  return { killed, acknowledged, setbacks }
}

function stopFor(holder: Child, stopped: Set<number>): void {
  stopped.add(holder.pid)
  holder.signal('SIGSTOP')
  setTimeout(() => {
    holder.signal('SIGCONT')
    stopped.delete(holder.pid)
  }, STOPPED_MS)
}

interface History {
  readonly counted: readonly Extract<LogRecord, { kind: 'set' }>[]
  readonly openedBy: readonly number[]
  readonly refused: number
  readonly fences: readonly bigint[]
}

function readHistory(logPath: string): History {
  const counted: Extract<LogRecord, { kind: 'set' }>[] = []
  const openedBy: number[] = []
  const fences: bigint[] = []
  let refused = 0
  const log = new FencedLog(logPath, (record, counts) => {
    if (!counts) {
      refused += 1
      return
    }
    fences.push(record.fence)
    if (record.kind === 'set') counted.push(record)
    else openedBy.push(record.pid)
  })
  log.catchUp()
  log.close()
  return { counted, openedBy, refused, fences }
}

/** How often somebody went on where a killed process had been the last. */
function takeovers(openedBy: readonly number[], killed: ReadonlySet<number>): number {
  const next = openedBy.slice(1)
  return next.filter(
    (pid, index) =>
      pid !== openedBy[index] && isLast(openedBy, index) && killed.has(openedBy[index] as number),
  ).length
}

function isLast(openedBy: readonly number[], index: number): boolean {
  return openedBy.lastIndexOf(openedBy[index] as number) === index
}

describe('a counter whose holders are killed and stopped', () => {
  it('loses nothing that was acknowledged and counts nothing twice', async () => {
    const logPath = join(folder, 'log')
    const { killed, acknowledged, setbacks } = await countUnderFire(logPath)
    await children.stopAll()
    expect(children.errors).toBe('')
    const { counted, openedBy, refused, fences } = readHistory(logPath)

    expect(counted.map(({ value }) => value)).toEqual(counted.map((_, index) => index + 1))
    expect(fences.every((fence, index) => index === 0 || fence >= (fences[index - 1] as bigint))).toBe(true)
    const operations = counted.map(({ operation }) => operation)
    // Once each, acknowledged or in doubt.
    expect(new Set(operations).size).toBe(operations.length)
    expect(new Set(acknowledged).size).toBe(acknowledged.length)
    const known = new Set(operations)
    expect(acknowledged.filter((operation) => !known.has(operation))).toEqual([])
    // Of each process at most its last addition can be in doubt: the one during which it was killed.
    expect(operations.length - acknowledged.length).toBeLessThanOrEqual(killed.size + PROCESSES)
    expect(killed.size).toBe(KILLS)
    const takenOver = takeovers(openedBy, killed)
    expect(takenOver).toBeGreaterThan(0)
    const troubles = [...setbacks].map(([code, times]) => `${code} ${times}`).join(', ')
    console.log(
      `counter-kill: ${killed.size} kills, ${takenOver} takeovers, ${acknowledged.length} additions acknowledged, ` +
        `${operations.length - acknowledged.length} in doubt, ${refused} stale lines refused; setbacks: ${troubles || 'none'}`,
    )
  })
})
