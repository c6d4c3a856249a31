import { InvalidInputError } from '../../core/errors.js'
import { Bench, type OpenedStore } from './bench.js'
import type { Case, Conditions, SafetyTag, Theme, Unmet } from './theme.js'
import { THEMES } from './themes.js'
import { LimitError, within } from './waiting.js'

/** As much of a test runner as the suite needs. Vitest, `node:test` and mocha all fit. */
export interface RunnerIt {
  (title: string, body: () => Promise<void>): unknown
  skip(title: string, body: () => Promise<void>): unknown
}

export type RunnerDescribe = (title: string, body: () => void) => unknown

/** What the suite knows about a group of cases. */
export interface CaseGroup {
  /** The name of the theme. */
  readonly name: string
  readonly tags: readonly SafetyTag[]
  /** Whether the cases must not run beside others. All groups that may come first. */
  readonly alone: boolean
}

/** Registers a group of cases with a runner that has tags, or that can run cases concurrently. */
export type RunnerGroup = (group: CaseGroup, body: () => void) => unknown

/** A theme, or one case of it, that shall not run. */
export interface SkipRequest {
  readonly theme: string
  /** The title of the case. Left out: the whole theme. */
  readonly case?: string
  readonly reason: string
}

export interface ConformanceOptions {
  /** What is tested, for the titles. */
  readonly name: string
  readonly describe: RunnerDescribe
  readonly it: RunnerIt
  /**
   * Registers the cases of one theme. Default: `describe(group.name, body)`. Cases use a store of their own each, so they
   * can run concurrently, except those of a group with `alone`. In Vitest:
   * `({ name, alone }, body) => (alone ? describe.sequential : describe.concurrent)(name, body)`.
   */
  readonly group?: RunnerGroup
  /** Makes one fresh, empty store. Called once to learn what is declared, and once for each case. */
  readonly open: () => Promise<OpenedStore>
  readonly skip?: readonly SkipRequest[]
  /** How long one case may take before it counts as hanging. Default: 240 seconds. */
  readonly caseLimitMs?: number
}

export interface RanCase {
  readonly theme: string
  readonly case: string
  readonly outcome: 'passed' | 'failed'
}

export interface SkippedCase {
  readonly theme: string
  readonly case: string
  readonly reason: string
  /** What explains it: what the store declares, what its hooks cannot do, or the `skip` option. */
  readonly by: Unmet['by'] | 'option'
}

/** What became of every case. `ran` fills as the cases end; `skipped` and `total` are there from the start. */
export interface ConformanceSummary {
  readonly total: number
  readonly ran: readonly RanCase[]
  readonly skipped: readonly SkippedCase[]
}

/** A guard against cases that hang. No sound store comes near it, also on a machine that is very busy. */
const CASE_LIMIT_MS = 240_000

/** The names of the themes and the titles of their cases, for whoever writes a `skip`. */
export function conformanceCases(): ReadonlyMap<string, readonly string[]> {
  return new Map(THEMES.map(({ name, cases }) => [name, cases.map(({ title }) => title)]))
}

/**
 * Registers the suite with a test runner. What the store declares decides which cases apply: declaring a guarantee
 * obliges to pass its cases, and every case that does not apply is registered as skipped, with the reason in its title.
 */
export async function describeBackend(options: ConformanceOptions): Promise<ConformanceSummary> {
  const skip = options.skip ?? []
  for (const request of skip) checkSkip(request)
  const conditions = await learnConditions(options)
  const planned = THEMES.map((theme) => ({
    theme,
    cases: theme.cases.map((each) => ({ each, why: reasonToSkip(theme, each, conditions, skip) })),
  }))
  const ran: RanCase[] = []
  const group: RunnerGroup = options.group ?? (({ name }, body) => options.describe(name, body))
  options.describe(`${options.name} conforms`, () => {
    for (const alone of [false, true]) {
      for (const { theme, cases } of planned) {
        const members = cases.filter(({ each }) => (each.alone ?? false) === alone)
        if (members.length === 0) continue
        group({ name: theme.name, tags: theme.tags ?? [], alone }, () => {
          for (const { each, why } of members) {
            if (why === null) register(options, conditions, theme, each, ran)
            else options.it.skip(`${each.title} (skipped: ${why.reason})`, async () => {})
          }
        })
      }
    }
  })
  // Runners may call the bodies above later, so what is skipped is told from the plan.
  const skipped = planned.flatMap(({ theme, cases }) =>
    cases.flatMap(({ each, why }) => (why === null ? [] : [{ theme: theme.name, case: each.title, ...why }])),
  )
  return { total: planned.reduce((sum, { cases }) => sum + cases.length, 0), ran, skipped }
}

function checkSkip({ theme: name, case: title, reason }: SkipRequest): void {
  const theme = THEMES.find((each) => each.name === name)
  if (theme === undefined) {
    const names = THEMES.map((each) => each.name).join(', ')
    throw new InvalidInputError('skip.theme', `one of ${names}`, name)
  }
  if (title !== undefined && !theme.cases.some((each) => each.title === title)) {
    throw new InvalidInputError('skip.case', `the title of a case of the theme ${name}`, title)
  }
  if (typeof reason !== 'string' || reason.trim() === '') {
    throw new InvalidInputError('skip.reason', 'a text that says why', reason)
  }
}

async function learnConditions({ open }: ConformanceOptions): Promise<Conditions> {
  const store = await open()
  try {
    const locks = await store.connect()
    const { guarantees } = locks
    await locks.close()
    return { guarantees, noCrash: typeof store.crash === 'function' ? null : store.crash.unavailable }
  } finally {
    await store.close()
  }
}

function reasonToSkip(
  theme: Theme,
  each: Case,
  conditions: Conditions,
  skip: readonly SkipRequest[],
): { readonly reason: string; readonly by: SkippedCase['by'] } | null {
  for (const need of [...(theme.needs ?? []), ...(each.needs ?? [])]) {
    const unmet = need(conditions)
    if (unmet !== null) return unmet
  }
  const request = skip.find(
    ({ theme: name, case: title }) => name === theme.name && (title === undefined || title === each.title),
  )
  return request === undefined ? null : { reason: request.reason, by: 'option' }
}

function register(
  options: ConformanceOptions,
  { guarantees }: Conditions,
  theme: Theme,
  each: Case,
  ran: RanCase[],
): void {
  options.it(each.title, async () => {
    const note = (outcome: RanCase['outcome']): void => {
      ran.push({ theme: theme.name, case: each.title, outcome })
    }
    const bench = new Bench(await options.open(), guarantees)
    const limitMs = options.caseLimitMs ?? CASE_LIMIT_MS
    try {
      await within(each.run(bench), 'the case comes to its end', { limitMs })
    } catch (error) {
      note('failed')
      const explained = error instanceof LimitError ? await bench.explain(error) : error
      await bench.abandon()
      throw explained
    }
    try {
      await bench.finish()
    } catch (error) {
      note('failed')
      throw error
    }
    note('passed')
  })
}
