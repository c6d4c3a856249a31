/**
 * What every store of idempotency records must do, as a suite for any test runner:
 *
 *     import { afterAll, describe, it } from 'vitest'
 *     import { describeRecords } from 'holdfast/testing'
 *
 *     const summary = await describeRecords({
 *       name: 'mine', describe, it, afterAll,
 *       open: async () => ({ connect: async () => myRecords(url), close: async () => {} }),
 *     })
 *
 * `open` is called once: all cases share one storage, and keep apart by keys that nobody else has. `connect` gives a
 * further store object on it that is not opened yet. Cases that wait for a lease or a retention run all at the same
 * time, so the suite takes about as long as the longest of them: a few of the shortest leases that the store declares.
 */

import type { RecordStore } from '../../core/records.js'
import type { RunnerDescribe, RunnerIt } from '../conformance/suite.js'
import { later, PATIENCE_MS, within } from '../conformance/waiting.js'
import { type OpenedRecords, RecordBench } from './bench.js'
import { claiming } from './claiming.js'
import { contents, endings } from './contents.js'
import { finishing } from './finishing.js'
import { leases } from './leases.js'
import { retention } from './retention.js'
import { conditionsOf, type RecordCase, type RecordConditions, type RecordTheme } from './theme.js'
import { tokens } from './tokens.js'

export interface RecordConformanceOptions {
  /** What is tested, for the titles. */
  readonly name: string
  readonly describe: RunnerDescribe
  readonly it: RunnerIt
  /** Called once with what ends the suite; `after` in `node:test` and mocha. */
  readonly afterAll: (body: () => Promise<void>) => unknown
  readonly open: () => Promise<OpenedRecords>
  /** How long one case may take before it counts as hanging. Default: 55 seconds. */
  readonly caseLimitMs?: number
}

export interface RecordConformanceSummary {
  readonly total: number
  /** Fills as the cases end. */
  readonly ran: readonly { readonly case: string; readonly outcome: 'passed' | 'failed' }[]
  /** Only what the store declares explains a case that is left out. */
  readonly skipped: readonly { readonly case: string; readonly reason: string }[]
}

const THEMES: readonly RecordTheme[] = [claiming, finishing, leases, retention, tokens, contents, endings]
const CASE_LIMIT_MS = 55_000

export async function describeRecords(options: RecordConformanceOptions): Promise<RecordConformanceSummary> {
  const { storage, bench, close } = await openBench(options)
  const conditions = conditionsOf(bench.a)
  const limitMs = options.caseLimitMs ?? CASE_LIMIT_MS
  const ran: { case: string; outcome: 'passed' | 'failed' }[] = []
  const skipped: { case: string; reason: string }[] = []
  const start = (each: RecordCase): Promise<void> =>
    later(within(each.run(bench), 'the case comes to its end', { limitMs }))
  const waiting = new Map<RecordCase, Promise<void>>()
  const toStart: RecordCase[] = []
  /** The first case that waits starts all that do. */
  const outcomeOf = (each: RecordCase): Promise<void> => {
    if (each.waits !== true) return start(each)
    for (const one of toStart.splice(0)) waiting.set(one, start(one))
    return waiting.get(each) ?? start(each)
  }
  const register = (each: RecordCase): void => {
    const reason = reasonToSkip(each, conditions)
    if (reason !== null) {
      skipped.push({ case: each.title, reason })
      options.it.skip(`${each.title} (skipped: ${reason})`, async () => {})
      return
    }
    if (each.waits === true) toStart.push(each)
    options.it(each.title, async () => {
      try {
        await outcomeOf(each)
        ran.push({ case: each.title, outcome: 'passed' })
      } catch (error) {
        ran.push({ case: each.title, outcome: 'failed' })
        throw error
      }
    })
  }
  options.describe(`records of ${options.name} conform`, () => {
    options.afterAll(async () => {
      // What a filter has left out may still run; it ends with the clients.
      await close()
      await storage.close()
    })
    for (const { name, cases } of THEMES) options.describe(name, () => cases.forEach(register))
  })
  return { total: THEMES.reduce((sum, { cases }) => sum + cases.length, 0), ran, skipped }
}

async function openBench({ open }: RecordConformanceOptions): Promise<{
  readonly storage: OpenedRecords
  readonly bench: RecordBench
  readonly close: () => Promise<void>
}> {
  const storage = await open()
  const clients: RecordStore[] = []
  const connect = async (): Promise<RecordStore> => {
    const store = await storage.connect()
    clients.push(store)
    return store
  }
  const close = async (): Promise<void> => {
    await within(Promise.all(clients.map((store) => store.close())), 'every client closes', {
      limitMs: 3 * PATIENCE_MS,
    })
  }
  try {
    const [a, b] = [await connect(), await connect()]
    await a.open()
    await a.migrate?.()
    await b.open()
    return { storage, bench: new RecordBench(a, b, connect), close }
  } catch (error) {
    await Promise.allSettled([close()])
    await Promise.allSettled([storage.close()])
    throw error
  }
}

function reasonToSkip({ needs = [] }: RecordCase, conditions: RecordConditions): string | null {
  for (const need of needs) {
    const reason = need(conditions)
    if (reason !== null) return reason
  }
  return null
}
