import { mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { bundleMutant } from './bundle.js'
import { runFleet } from './fleet.js'
import { MUTANTS, type Mutant } from './mutants/index.js'
import { STEPS_PER_WORLD } from './run.js'
import { SOAK_ACQUISITIONS } from './soak.js'
import { STORE_TYPES, type StoreType } from './stores/store.js'
import type { Counts, Tally } from './tally.js'
import { World } from './world.js'

const HELP = `The simulator: the real core on virtual time, with faults decided by a seed.

  npm run sim -- [--steps M] [--from N] [--threads T]   run seeds N, N+1, … until M steps are done (default 2,000,000)
  npm run sim -- --seed N [--steps M] [--lines L]       replay one seed; prints the last L lines of what happened
  npm run sim -- --store TYPE …                         only worlds with this store: ${STORE_TYPES.join(', ')}
  npm run sim -- --mutants [--only TEXT]                plant known faults one by one; each must be found
  npm run sim -- --soak N                               two long worlds with N acquisitions each; nothing may grow
  npm run sim -- --suite [--soak N]                     M steps, the long worlds, then the mutants

Exit code 1: a promise was broken, or a planted fault was not found.`

const SUITE_STEPS = 2_000_000

/** A mutant that survives this many steps counts as not found. */
const MUTANT_STEPS = 20_000_000

/** A planted leak shows in windows of half as many. */
const MUTANT_ACQUISITIONS = 4_000

const packages = fileURLToPath(new URL('../../../', import.meta.url))

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', short: 'h' },
    seed: { type: 'string' },
    lines: { type: 'string' },
    steps: { type: 'string' },
    from: { type: 'string' },
    threads: { type: 'string' },
    mutants: { type: 'boolean' },
    only: { type: 'string' },
    soak: { type: 'string' },
    suite: { type: 'boolean' },
    store: { type: 'string' },
  },
})

process.exitCode = await main()

async function main(): Promise<number> {
  if (values.help === true) {
    console.log(HELP)
    return 0
  }
  const store = storeType(values.store)
  const threads = whole('threads', values.threads, Math.max(1, availableParallelism()))
  if (values.seed !== undefined) {
    const steps = whole('steps', values.steps, STEPS_PER_WORLD)
    return await replay(whole('seed', values.seed, 1), steps, whole('lines', values.lines, 60), store)
  }
  if (values.mutants === true) return await hunt(threads, store)
  const isSuite = values.suite === true
  const acquisitions = whole('soak', values.soak, SOAK_ACQUISITIONS)
  if (values.soak !== undefined && !isSuite) return (await soak(acquisitions, threads)) ? 0 : 1
  const steps = whole('steps', values.steps, SUITE_STEPS)
  if (!(await sweep(whole('from', values.from, 1), steps, threads, store))) return 1
  if (!isSuite) return 0
  return (await soak(acquisitions, threads)) ? await hunt(threads, store) : 1
}

async function soak(acquisitions: number, threads: number): Promise<boolean> {
  console.log(`Two long worlds with ${count(acquisitions)} acquisitions each, in which nothing may grow`)
  const tally = await runFleet({ firstSeed: 1, steps: 0, soak: acquisitions, threads })
  console.log(
    `${count(tally.grants)} acquisitions in ${count(tally.steps)} steps with ${count(tally.faults)} faults`,
  )
  const { failure } = tally
  console.log(
    failure === null ? 'No violation.' : `VIOLATION ${failure.message} in long world ${failure.seed}`,
  )
  return failure === null
}

async function sweep(
  firstSeed: number,
  steps: number,
  threads: number,
  store: StoreType | undefined,
): Promise<boolean> {
  const began = performance.now()
  let done = 0
  let shown = 0
  const onSteps = (more: number): void => {
    done += more
    if (done - shown < steps / 10) return
    shown = done
    console.log(`  ${Math.min(100, Math.round((done / steps) * 100))} %: ${count(done)} steps`)
  }
  console.log(`Simulating ${count(steps)} steps on ${threads} threads, from seed ${firstSeed}`)
  const tally = await runFleet({ firstSeed, steps, threads, store, onSteps })
  const seconds = (performance.now() - began) / 1_000
  console.log(
    `${count(tally.steps)} steps in ${count(tally.worlds)} worlds: ${count(tally.grants)} grants, ` +
      `${count(tally.losses)} losses, ${count(tally.faults)} faults, in ${seconds.toFixed(1)} s`,
  )
  console.log(`worlds by store: ${listed(tally.stores)}`)
  console.log(`faults by kind: ${listed(tally.faultKinds)}`)
  report(tally)
  return tally.failure === null
}

function report({ failure }: Tally): void {
  if (failure === null) console.log('No violation.')
  else
    console.log(
      `VIOLATION ${failure.message}\nReplay it with: npm run sim -- --seed ${failure.seed}${limit()}`,
    )
}

async function replay(
  seed: number,
  steps: number,
  lines: number,
  store: StoreType | undefined,
): Promise<number> {
  const trace: string[] = []
  const result = await new World(seed, { store, onTrace: (line) => trace.push(line) }).run(steps)
  console.log(trace.slice(-lines).join('\n'))
  console.log(
    `Seed ${seed}, ${result.store} store: ${result.steps} steps, ${result.grants} grants, ${result.faults} faults`,
  )
  console.log(result.violation === null ? 'No violation.' : `VIOLATION ${result.violation.message}`)
  return result.violation === null ? 0 : 1
}

/** Plants each fault in turn. The table shows where each fell, and what it was caught as. */
async function hunt(threads: number, store: StoreType | undefined): Promise<number> {
  const mutants = MUTANTS.filter(({ name }) => name.includes(values.only ?? ''))
  console.log(`\nMutants: ${mutants.length} planted faults, each of which must be found`)
  const width = Math.max(...mutants.map(({ name }) => name.length))
  console.log(
    `  ${'planted fault'.padEnd(width)}  ${'caught as'.padEnd(20)}  ${'seed'.padStart(6)}  ${'step'.padStart(9)}`,
  )
  let survivors = 0
  for (const mutant of mutants) {
    const { failure } = await run(mutant, threads, store ?? mutant.worlds)
    if (failure === null) survivors += 1
    const [kind, seed, step] =
      failure === null ? ['NOT CAUGHT', '', ''] : [failure.kind, failure.seed, failure.atStep]
    const cells = [
      mutant.name.padEnd(width),
      kind.padEnd(20),
      String(seed).padStart(6),
      count(step).padStart(9),
    ]
    console.log(`  ${cells.join('  ')}`)
  }
  console.log(survivors === 0 ? 'Every mutant was caught.' : `${survivors} mutants were NOT caught.`)
  return survivors === 0 ? 0 : 1
}

async function run(mutant: Mutant, threads: number, store: StoreType | undefined): Promise<Tally> {
  // Below the packages, so that what the build leaves external is found.
  const folder = mkdtempSync(join(packages, 'torture', 'dist', 'mutant-'))
  try {
    const module = await bundleMutant(packages, mutant, folder)
    const { soak: isSoak = false } = mutant
    return await runFleet({
      module,
      firstSeed: 1,
      steps: MUTANT_STEPS,
      threads: isSoak ? 1 : threads,
      store,
      ...(isSoak ? { soak: MUTANT_ACQUISITIONS } : {}),
    })
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function whole(name: string, text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback
  const value = Number(text)
  if (Number.isSafeInteger(value) && value > 0) return value
  throw new RangeError(`Expected --${name} to be a whole number above 0, got ${JSON.stringify(text)}.`)
}

function count(value: number | string): string {
  return typeof value === 'number' ? value.toLocaleString('en-US') : value
}

function storeType(text: string | undefined): StoreType | undefined {
  const type = STORE_TYPES.find((each) => each === text)
  if (text === undefined || type !== undefined) return type
  throw new RangeError(
    `Expected --store to be one of ${STORE_TYPES.join(', ')}, got ${JSON.stringify(text)}.`,
  )
}

/** What a replay must repeat to come to the same world. */
function limit(): string {
  return values.store === undefined ? '' : ` --store ${values.store}`
}

function listed(counts: Counts): string {
  const all = Object.entries(counts).toSorted(([, a], [, b]) => b - a)
  return all.length === 0 ? 'none' : all.map(([name, times]) => `${name} ${count(times)}`).join(', ')
}
