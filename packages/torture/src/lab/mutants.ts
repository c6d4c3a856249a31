/** The faults that are planted in our own recipes. It needs the source of the library, so it is for this repository only. */

import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { visible } from '../report/visible.js'
import { Hunt, type Hunted } from './mutants/hunt.js'
import { RECIPE_MUTANTS } from './mutants/list/index.js'

const HELP = `Faults planted in our own recipes, one by one. Each must be caught on the real store, by a schedule that the library
passes as it is.

  node packages/torture/dist/lab/mutants.js [--only TEXT] [--at-once N] [--timelines]

  --only TEXT   those whose name, store or schedule has this text in it
  --at-once N   how many are played side by side (default 8)
  --timelines   what happened, too

Exit code 1: one was not caught, or the library did not pass.`

const AT_ONCE = 8

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', short: 'h' },
    only: { type: 'string' },
    'at-once': { type: 'string' },
    timelines: { type: 'boolean' },
  },
})

process.exitCode = await main()

async function main(): Promise<number> {
  if (values.help === true) {
    console.log(HELP)
    return 0
  }
  const { only = '' } = values
  const mutants = RECIPE_MUTANTS.filter(({ name, store, trial }) =>
    [name, store, trial.name].some((text) => text.includes(only)),
  )
  if (mutants.length === 0) {
    console.error(`No mutant has ${JSON.stringify(only)} in its name, its store or its schedule.`)
    return 1
  }
  const began = performance.now()
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort(new Error('Interrupted.')))
  const hunt = new Hunt({
    packages: fileURLToPath(new URL('../../../', import.meta.url)),
    atOnce: atOnce(),
    signal: stop.signal,
    onResult: showOne,
  })
  try {
    const results = await hunt.run(mutants)
    showAll(results, performance.now() - began)
    return results.every(({ caught, passed, kind }) => kind === 'not run' || (caught && passed)) ? 0 : 1
  } finally {
    await hunt.dispose()
  }
}

function atOnce(): number {
  const text = values['at-once']
  const count = text === undefined ? AT_ONCE : Number(text)
  if (Number.isSafeInteger(count) && count > 0) return count
  throw new RangeError(`Expected --at-once to be a whole number above 0, got ${JSON.stringify(text)}.`)
}

function showOne({ mutant, caught, passed, kind, timelines }: Hunted): void {
  const word = kind === 'not run' ? 'not run' : caught && passed ? 'caught' : 'NOT AS EXPECTED'
  console.log(`${word}: ${mutant.name} (${mutant.store})`)
  if (values.timelines !== true) return
  console.log(['--- mutant', ...timelines.mutant, '--- as it is', ...timelines.unmutated, ''].join('\n'))
}

function showAll(results: readonly Hunted[], tookMs: number): void {
  const rows = [
    ['mutant', 'store', 'schedule', 'expected', 'found', 'caught', 'as it is'],
    ...results.map(({ mutant, found, caught, unmutated, passed, kind }) => [
      mutant.name,
      mutant.store,
      mutant.trial.name,
      mutant.expects,
      found,
      kind === 'not run' ? '-' : caught ? 'yes' : 'NO',
      passed ? 'passes' : kind === 'not run' ? '-' : `FAILS: ${unmutated}`,
    ]),
  ]
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  console.log('')
  for (const row of rows) {
    console.log(
      row
        .map((cell, column) => visible(cell).padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
  }
  const ran = results.filter(({ kind }) => kind === 'ran')
  const caught = ran.filter((each) => each.caught && each.passed).length
  const missing = results.length - ran.length
  console.log(
    `\n${caught} of ${ran.length} mutants were caught, in ${(tookMs / 1_000).toFixed(0)} s` +
      `${missing === 0 ? '' : `; ${missing} were not run`}.`,
  )
}
