/** The stores that need no server: a file and the memory of the process. */

import { join } from 'node:path'
import { type Bench, type Findings, type Group, perSecond, sayRound } from '../group.js'
import { atLeast, type Row } from '../report.js'
import { type Contender, type Measured, median, type Plan, ratio, rotate } from '../rotation.js'
import { asyncMutexCrowd, holdfastCrowd } from './crowd.js'
import { type Contention, contend } from './processes.js'
import {
  acquireLatency,
  bareTransactions,
  holdfastInMemory,
  holdfastOnSqlite,
  properLockfile,
} from './uncontended.js'

interface Sizes {
  /** Short rounds and many of them: what else runs on the machine then hits single rounds, which the median leaves out. */
  readonly sqlite: Plan
  readonly lockfile: Plan
  readonly crowd: Plan
  readonly memory: Plan
  readonly latencies: number
  readonly contendMs: number
}

const FULL: Sizes = {
  sqlite: { times: 50, rounds: 401 },
  lockfile: { times: 25, rounds: 101 },
  crowd: { times: 64 * 50, rounds: 101 },
  memory: { times: 5_000, rounds: 11 },
  latencies: 5_000,
  contendMs: 5_000,
}

const QUICK: Sizes = {
  sqlite: { times: 50, rounds: 101 },
  lockfile: { times: 25, rounds: 21 },
  crowd: { times: 64 * 20, rounds: 51 },
  memory: { times: 1_000, rounds: 7 },
  latencies: 1_000,
  contendMs: 1_500,
}

const SQLITE = 'sqlite:'
const MEMORY = 'memory:'

export const embeddedGroups: readonly Group[] = [
  {
    name: 'sqlite-uncontended',
    about: 'acquire + release against bare transactions and proper-lockfile',
    run: sqliteUncontended,
  },
  {
    name: 'sqlite-latency',
    about: 'how long a single acquire takes',
    run: (bench) => latency(bench, SQLITE, `sqlite:${join(bench.folder, 'latency.db')}`),
  },
  { name: 'sqlite-processes', about: 'hand-over among 2 and 8 processes', run: sqliteProcesses },
  { name: 'memory-crowd', about: 'hand-over among 64 callers, against async-mutex', run: memoryCrowd },
  { name: 'memory-uncontended', about: 'acquire + release', run: memoryUncontended },
  {
    name: 'memory-latency',
    about: 'how long a single acquire takes',
    run: (bench) => latency(bench, MEMORY, 'memory:'),
  },
]

function sizesOf({ quick }: Bench): Sizes {
  return quick ? QUICK : FULL
}

async function sqliteUncontended(bench: Bench): Promise<Findings> {
  const { sqlite, lockfile } = sizesOf(bench)
  const ours = await holdfastOnSqlite(bench.folder)
  const rows: Row[] = []
  for (const [other, plan, bar] of [
    [await bareTransactions(bench.folder), sqlite, 0.5],
    [await properLockfile(bench.folder), lockfile, 1],
  ] as const) {
    const [measured, otherMeasured] = await measure([ours, other], plan, bench)
    await other.close()
    rows.push(compare('acquire + release, uncontended', measured, otherMeasured, bar))
  }
  await ours.close()
  return { title: SQLITE, rows }
}

async function memoryCrowd(bench: Bench): Promise<Findings> {
  const opened = await holdfastCrowd()
  const [ours, theirs] = await measure([opened, asyncMutexCrowd()], sizesOf(bench).crowd, bench)
  await opened.close()
  return { title: MEMORY, rows: [compare('hand-over among 64 callers of one process', ours, theirs, 0.2)] }
}

async function memoryUncontended(bench: Bench): Promise<Findings> {
  const opened = await holdfastInMemory()
  const [ours] = await measure([opened], sizesOf(bench).memory, bench)
  await opened.close()
  return { title: MEMORY, rows: [{ what: 'acquire + release, uncontended', value: rateOf(ours) }] }
}

async function latency(bench: Bench, title: string, url: string): Promise<Findings> {
  const { p50Us, p99Us } = await acquireLatency(url, sizesOf(bench).latencies)
  const value = `p50 ${Math.round(p50Us)} µs, p99 ${Math.round(p99Us)} µs`
  return { title, rows: [{ what: 'time to acquire, uncontended', value }] }
}

async function sqliteProcesses(bench: Bench): Promise<Findings> {
  const rows: Row[] = []
  for (const processes of [2, 8]) {
    bench.say(`${processes} processes`)
    const url = `sqlite:${join(bench.folder, `contended-${processes}.db`)}`
    const found = await contend(url, processes, sizesOf(bench).contendMs)
    rows.push({ what: `hand-over among ${processes} processes`, value: describeContention(found) })
  }
  return { title: SQLITE, rows }
}

function describeContention({ handOversPerSecond, waitP50Ms, waitP99Ms, waitMaxMs }: Contention): string {
  const waits = [
    `p50 ${waitP50Ms.toFixed(1)}`,
    `p99 ${waitP99Ms.toFixed(1)}`,
    `max ${waitMaxMs.toFixed(1)} ms`,
  ]
  return `${perSecond(handOversPerSecond)}; wait ${waits.join(', ')}`
}

/** As many results as contenders, which the type says so that the callers need not check. */
async function measure<C extends readonly Contender[]>(
  contenders: readonly [...C],
  plan: Plan,
  bench: Bench,
): Promise<{ readonly [K in keyof C]: Measured }> {
  const measured = await rotate(contenders, plan, sayRound(bench))
  return measured as unknown as { readonly [K in keyof C]: Measured }
}

function compare(what: string, ours: Measured, theirs: Measured, bar: number): Row {
  const against = `${theirs.name}: ${rateOf(theirs)}`
  return { what, value: rateOf(ours), against, figure: ratio(ours, theirs), bar: atLeast(bar) }
}

function rateOf({ rates }: Measured): string {
  return perSecond(median(rates))
}
