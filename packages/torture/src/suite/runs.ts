/** The runs of the suite: what each came to, and what that means for the whole. */

import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import type { StageDefinition } from '../stage/stage.js'
import type { TortureOutcome } from '../torture/outcome.js'
import { runTorture } from '../torture/run.js'
import type { SuiteOptions } from './options.js'

export type SuiteResult =
  | {
      readonly kind: 'ran'
      readonly store: string
      readonly recipe: string
      readonly outcome: TortureOutcome
    }
  /** It could not be had here. */
  | {
      readonly kind: 'not run'
      readonly store: string
      readonly recipe: string
      readonly reason: string
      readonly required: boolean
    }
  /** It gave no outcome. */
  | {
      readonly kind: 'broke'
      readonly store: string
      readonly recipe: string
      readonly reason: string
      readonly repeat: string
    }

export function isGood(result: SuiteResult): boolean {
  if (result.kind === 'ran') return result.outcome.verdict.valid
  return result.kind === 'not run' && !result.required
}

/** Whether the setting of HOLDFAST_REQUIRE_STORES names the store. */
export function isRequired(store: string, setting: string | undefined): boolean {
  const names = (setting ?? '').split(',').map((name) => name.trim())
  return names.includes('all') || names.includes(store)
}

export function chosen(
  definitions: readonly StageDefinition[],
  only: readonly string[] | null,
): readonly StageDefinition[] {
  if (only === null) return definitions
  const names = (each: StageDefinition): readonly string[] => [each.store, `${each.store}:${each.recipe}`]
  const unknown = only.find((name) => !definitions.some((each) => names(each).includes(name)))
  if (unknown !== undefined) throw new Error(`There is no store or recipe ${JSON.stringify(unknown)}.`)
  return definitions.filter((each) => names(each).some((name) => only.includes(name)))
}

/** Runs them, so many at a time, in their order. */
export async function runAll(
  definitions: readonly StageDefinition[],
  options: SuiteOptions,
  signal: AbortSignal,
  onResult: (result: SuiteResult) => void,
): Promise<SuiteResult[]> {
  const results: SuiteResult[] = []
  const waiting = definitions.map((definition, index) => ({ definition, seed: options.seed + index }))
  const lane = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      signal.throwIfAborted()
      const result = await runOne(next.definition, next.seed, options, signal)
      results.push(result)
      onResult(result)
    }
  }
  await Promise.all(Array.from({ length: options.sideBySide }, lane))
  const order = (result: SuiteResult): number =>
    definitions.findIndex(({ store, recipe }) => store === result.store && recipe === result.recipe)
  return results.sort((a, b) => order(a) - order(b))
}

async function runOne(
  stage: StageDefinition,
  seed: number,
  { seconds, workers, failures }: SuiteOptions,
  signal: AbortSignal,
): Promise<SuiteResult> {
  const { store, recipe } = stage
  const reason = stage.missing()
  if (reason !== null) {
    const required = isRequired(store, process.env['HOLDFAST_REQUIRE_STORES'])
    return { kind: 'not run', store, recipe, reason, required }
  }
  const repeat = `holdfast torture --store ${store} --recipe ${recipe} --seconds ${seconds} --workers ${workers} --seed ${seed}`
  try {
    const outcome = await runTorture(
      {
        stage,
        seconds,
        workers,
        seed,
        faults: null,
        prefix: `holdfast-torture:${randomInt(2 ** 40).toString(36)}:`,
        history: null,
        report: null,
        failures: join(failures, `${store}-${recipe}-${seed}`),
        repeat,
      },
      signal,
    )
    return { kind: 'ran', store, recipe, outcome }
  } catch (error) {
    // The others go on: one store that cannot be started says nothing about the rest. An interruption ends all.
    signal.throwIfAborted()
    return {
      kind: 'broke',
      store,
      recipe,
      reason: error instanceof Error ? error.message : String(error),
      repeat,
    }
  }
}
