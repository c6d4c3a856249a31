/** Plants each fault in a build of the library, and runs the check that must find it. */

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { bundleLibrary } from '../../lab/mutants/bundle.js'
import { SharedServers } from '../../lab/mutants/servers.js'
import { RECIPES } from '../places.js'
import { type RunOptions, runOne } from '../run.js'
import { LIBRARY_ENTRY } from '../subject.js'
import type { SurroundingMutant } from './list.js'

export interface HuntedMutant {
  readonly mutant: SurroundingMutant
  readonly kind: 'caught' | 'missed' | 'not run'
  /** The first finding, or why it was not run. */
  readonly message: string
  /** Whether the store must be there. */
  readonly required: boolean
}

export interface MutantHuntOptions extends Omit<RunOptions, 'program' | 'checks' | 'onResult'> {
  /** The folder of the packages, with their source. */
  readonly packages: string
  /** Below the packages, so that builds find the drivers. */
  readonly folder: string
  readonly onResult: (hunted: HuntedMutant) => void
}

export async function huntMutants(
  mutants: readonly SurroundingMutant[],
  options: MutantHuntOptions,
): Promise<readonly HuntedMutant[]> {
  const servers = new SharedServers()
  const results: HuntedMutant[] = []
  const waiting = [...mutants.entries()]
  const lane = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, mutant] = next
      const hunted = await hunt(mutant, servers, join(options.folder, String(index)), options)
      results.push(hunted)
      options.onResult(hunted)
    }
  }
  try {
    await Promise.all(Array.from({ length: options.sideBySide }, lane))
  } finally {
    await servers.dispose()
  }
  return results
}

async function hunt(
  mutant: SurroundingMutant,
  servers: SharedServers,
  folder: string,
  options: MutantHuntOptions,
): Promise<HuntedMutant> {
  const { store, recipe, check } = mutant
  const definition = RECIPES.find((each) => each.store === store && each.recipe === recipe)
  if (definition === undefined) throw new Error(`There is no recipe ${store}:${recipe}.`)
  mkdirSync(folder)
  const program = await bundleLibrary(options.packages, mutant, folder, LIBRARY_ENTRY)
  const result = await runOne(definition, servers, {
    ...options,
    checks: [check],
    program,
    onResult: () => {},
  })
  if (result.kind === 'not run') {
    return { mutant, kind: 'not run', message: result.reason, required: result.required }
  }
  const checked = result.checks.get(check)
  const [first] = checked?.kind === 'found' ? checked.findings : []
  return first === undefined
    ? { mutant, kind: 'missed', message: 'the check found nothing', required: false }
    : { mutant, kind: 'caught', message: `${first.what}: ${first.message}`, required: false }
}
