/** Runs the checks on every recipe: the recipes of one server in turn, several servers side by side. */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { SharedServers } from '../lab/mutants/servers.js'
import { StoreNotHere } from '../lab/scene.js'
import { isRequired } from '../suite/runs.js'
import { lifetime } from './checks/lifetime.js'
import * as builtLibrary from './library.js'
import { RECIPES, type RecipeDefinition, recordsUrlOf } from './places.js'
import type { CheckName, Finding, Recipe, Sizes } from './subject.js'

/** What came of one check of one recipe. */
export type Checked =
  | { readonly kind: 'passed' }
  /** The recipe has nothing of this kind. */
  | { readonly kind: 'does not apply' }
  | { readonly kind: 'found'; readonly findings: readonly Finding[] }

export type RecipeResult = Pick<Recipe, 'store' | 'recipe'> &
  (
    | {
        readonly kind: 'ran'
        readonly checks: ReadonlyMap<CheckName, Checked>
        readonly tookMs: number
      }
    | { readonly kind: 'not run'; readonly reason: string; readonly required: boolean }
  )

export interface RunOptions {
  readonly checks: readonly CheckName[]
  readonly sizes: Sizes
  readonly seed: number
  readonly sideBySide: number
  /** The build of the library that is judged, as something to import. */
  readonly program: string
  readonly onResult?: (result: RecipeResult) => void
}

/** What the worker gets as JSON, its first argument. */
export interface WorkerSetup {
  readonly library: string
  readonly recipe: Recipe
  readonly checks: readonly CheckName[]
  readonly sizes: Sizes
  readonly seed: number
}

/** `findings` is null where the check does not apply. */
export interface WorkerReport {
  readonly check: CheckName
  readonly findings: readonly Finding[] | null
}

export function isGood(result: RecipeResult): boolean {
  if (result.kind === 'not run') return !result.required
  return [...result.checks.values()].every(({ kind }) => kind !== 'found')
}

export function chosen(only: string): readonly RecipeDefinition[] {
  return RECIPES.filter(({ store, recipe }) => `${store}:${recipe}`.includes(only))
}

export async function runAll(
  definitions: readonly RecipeDefinition[],
  options: RunOptions,
): Promise<readonly RecipeResult[]> {
  const servers = new SharedServers()
  // Counters of a server, such as its connections, belong to one recipe at a time.
  const groups = byServer(definitions)
  const results: RecipeResult[] = []
  const lane = async (): Promise<void> => {
    for (let group = groups.shift(); group !== undefined; group = groups.shift()) {
      for (const definition of group) {
        const result = await runOne(definition, servers, options)
        results.push(result)
        options.onResult?.(result)
      }
    }
  }
  try {
    await Promise.all(Array.from({ length: options.sideBySide }, lane))
  } finally {
    await servers.dispose()
  }
  const order = ({ store, recipe }: RecipeResult): number =>
    definitions.findIndex((each) => each.store === store && each.recipe === recipe)
  return results.sort((a, b) => order(a) - order(b))
}

function byServer(definitions: readonly RecipeDefinition[]): RecipeDefinition[][] {
  const groups = new Map<string, RecipeDefinition[]>()
  for (const definition of definitions) {
    const group = groups.get(definition.server)
    if (group === undefined) groups.set(definition.server, [definition])
    else group.push(definition)
  }
  // The longest group first, so that the others run beside it.
  return [...groups.values()].sort((a, b) => b.length - a.length)
}

export async function runOne(
  definition: RecipeDefinition,
  servers: SharedServers,
  options: RunOptions,
): Promise<RecipeResult> {
  const { store, recipe: name, ttlMs } = definition
  const began = performance.now()
  let url: string
  try {
    url = await definition.place((await servers.of(definition.server)).url)
  } catch (error) {
    if (!(error instanceof StoreNotHere)) throw error
    const required = isRequired(store, process.env['HOLDFAST_REQUIRE_STORES'])
    return { kind: 'not run', store, recipe: name, reason: error.message, required }
  }
  const recipe: Recipe = { store, recipe: name, url, ttlMs }
  await migrate(recipe)
  const checks = new Map<CheckName, Checked>()
  if (options.checks.includes('lifetime')) {
    const findings = await lifetime(recipe, { program: options.program, library: builtLibrary })
    checks.set('lifetime', outcomeOf(findings))
  }
  const inWorker = options.checks.filter((check) => check !== 'lifetime')
  for (const [check, checked] of await runWorker(recipe, inWorker, options)) checks.set(check, checked)
  return { kind: 'ran', store, recipe: name, checks, tookMs: performance.now() - began }
}

/** Makes the tables of locks and of records. */
async function migrate(recipe: Recipe): Promise<void> {
  const locks = await builtLibrary.holdfast.connect(recipe.url)
  try {
    await locks.migrate()
  } finally {
    await locks.close()
  }
  const recordsUrl = recordsUrlOf(recipe)
  if (recordsUrl === null) return
  const records = await builtLibrary.idempotency.connectRecords(recordsUrl)
  try {
    await records.migrate?.()
  } finally {
    await records.close()
  }
}

export function outcomeOf(findings: readonly Finding[] | null): Checked {
  if (findings === null) return { kind: 'does not apply' }
  return findings.length === 0 ? { kind: 'passed' } : { kind: 'found', findings }
}

async function runWorker(
  recipe: Recipe,
  checks: readonly CheckName[],
  { program, sizes, seed }: RunOptions,
): Promise<ReadonlyMap<CheckName, Checked>> {
  const results = new Map<CheckName, Checked>()
  if (checks.length === 0) return results
  const setup: WorkerSetup = { library: program, recipe, checks, sizes, seed }
  const file = join(
    createRequire(import.meta.url).resolve('holdfast-torture'),
    '..',
    'workers',
    'surroundings.js',
  )
  const worker = fork(file, [JSON.stringify(setup)], {
    execArgv: ['--expose-gc'],
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
  })
  let errors = ''
  worker.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  worker.on('message', ({ check, findings }: WorkerReport) => results.set(check, outcomeOf(findings)))
  const [code, signal] = (await once(worker, 'close')) as [number | null, string | null]
  for (const check of checks) {
    if (results.has(check)) continue
    const message = `the worker ended with ${signal ?? code} before this check was over: ${errors.trim().slice(-600)}`
    results.set(check, { kind: 'found', findings: [{ what: 'worker', message }] })
  }
  return results
}
