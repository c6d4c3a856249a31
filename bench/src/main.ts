/**
 * Runs the benchmarks and prints one table.
 *
 *     --quick    fewer operations, for continuous integration
 *     --assert   ends with exit code 1 if a bar is missed
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { asyncMutexHandOver, holdfastHandOver } from './hand-over.js'
import { type Contention, contend, contendAsWorker, WORKER_FLAG } from './processes.js'
import { asMarkdown, makeReport, missesBar, type Row, save } from './report.js'
import { type Contender, type Measured, median, type Plan, ratio, rotate } from './rotation.js'
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
  readonly handOver: Plan
  readonly memory: Plan
  readonly latencies: number
  readonly contendMs: number
}

const FULL: Sizes = {
  sqlite: { times: 50, rounds: 401 },
  lockfile: { times: 25, rounds: 101 },
  handOver: { times: 64 * 50, rounds: 101 },
  memory: { times: 5_000, rounds: 11 },
  latencies: 5_000,
  contendMs: 5_000,
}

const QUICK: Sizes = {
  sqlite: { times: 50, rounds: 101 },
  lockfile: { times: 25, rounds: 21 },
  handOver: { times: 64 * 20, rounds: 51 },
  memory: { times: 1_000, rounds: 7 },
  latencies: 1_000,
  contendMs: 1_500,
}

const FLAGS = new Set(['--quick', '--assert'])

async function main(args: readonly string[]): Promise<void> {
  if (args[0] === WORKER_FLAG) {
    await contendAsWorker(args[1] as string, Number(args[2]))
    return
  }
  const stray = args.find((arg) => !FLAGS.has(arg))
  if (stray !== undefined)
    throw new Error(`Unknown argument ${stray}; known are ${[...FLAGS].join(' and ')}.`)
  const quick = args.includes('--quick')
  const sizes = quick ? QUICK : FULL
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-bench-'))
  try {
    const rows = [
      ...(await uncontendedRows(folder, sizes)),
      ...(await handOverRows(sizes)),
      ...(await memoryRows(sizes)),
      ...(await latencyRows(folder, sizes)),
      ...(await contentionRows(folder, sizes)),
    ]
    const report = makeReport(rows, quick)
    console.log(asMarkdown(report))
    console.log(`Written to ${relative(process.cwd(), await save(report))}`)
    if (args.includes('--assert') && rows.some(missesBar)) process.exitCode = 1
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function uncontendedRows(folder: string, { sqlite, lockfile }: Sizes): Promise<Row[]> {
  const ours = await holdfastOnSqlite(folder)
  const rows: Row[] = []
  for (const [other, plan, bar] of [
    [await bareTransactions(folder), sqlite, 0.5],
    [await properLockfile(folder), lockfile, 1],
  ] as const) {
    const [measured, otherMeasured] = await measure([ours, other], plan)
    await other.close()
    rows.push(compare('sqlite: acquire + release, uncontended', measured, otherMeasured, bar))
  }
  await ours.close()
  return rows
}

async function handOverRows({ handOver }: Sizes): Promise<Row[]> {
  const opened = await holdfastHandOver()
  const [ours, theirs] = await measure([opened, asyncMutexHandOver()], handOver)
  await opened.close()
  return [compare('memory: hand-over among 64 callers of one process', ours, theirs, 0.2)]
}

async function memoryRows({ memory }: Sizes): Promise<Row[]> {
  const opened = await holdfastInMemory()
  const [ours] = await measure([opened], memory)
  await opened.close()
  return [{ what: 'memory: acquire + release, uncontended', value: perSecond(ours) }]
}

async function latencyRows(folder: string, { latencies }: Sizes): Promise<Row[]> {
  const rows: Row[] = []
  for (const [what, url] of [
    ['memory:', 'memory:'],
    ['sqlite:', `sqlite:${join(folder, 'latency.db')}`],
  ] as const) {
    const { p50Us, p99Us } = await acquireLatency(url, latencies)
    rows.push({
      what: `${what} time to acquire, uncontended`,
      value: `p50 ${Math.round(p50Us)} µs, p99 ${Math.round(p99Us)} µs`,
    })
  }
  return rows
}

async function contentionRows(folder: string, { contendMs }: Sizes): Promise<Row[]> {
  const rows: Row[] = []
  for (const processes of [2, 8]) {
    const found = await contend(`sqlite:${join(folder, `contended-${processes}.db`)}`, processes, contendMs)
    rows.push({ what: `sqlite: hand-over among ${processes} processes`, value: describeContention(found) })
  }
  return rows
}

function describeContention({ handOversPerSecond, waitP50Ms, waitP99Ms, waitMaxMs }: Contention): string {
  const waits = [
    `p50 ${waitP50Ms.toFixed(1)}`,
    `p99 ${waitP99Ms.toFixed(1)}`,
    `max ${waitMaxMs.toFixed(1)} ms`,
  ]
  return `${Math.round(handOversPerSecond)}/s; wait ${waits.join(', ')}`
}

/** As many results as contenders, which the type says so that the callers need not check. */
async function measure<C extends readonly Contender[]>(
  contenders: readonly [...C],
  plan: Plan,
): Promise<{ readonly [K in keyof C]: Measured }> {
  return (await rotate(contenders, plan)) as unknown as { readonly [K in keyof C]: Measured }
}

function compare(what: string, ours: Measured, theirs: Measured, bar: number): Row {
  const against = `${theirs.name}: ${perSecond(theirs)}`
  return { what, value: perSecond(ours), against, ratio: ratio(ours, theirs), bar }
}

function perSecond({ rates }: Measured): string {
  return `${Math.round(median(rates)).toLocaleString('en')}/s`
}

await main(process.argv.slice(2))
