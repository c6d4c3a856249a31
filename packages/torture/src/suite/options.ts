import { parseArgs } from 'node:util'

export const HELP = `Torments every store with every recipe, with all the faults that it can have.

  npm run torture -- [--seconds N] [--seed N] [--workers N] [--side-by-side N] [--only STORE[:RECIPE],...]
                     [--json FILE] [--failures DIR]

  --seconds       how long each run takes (default 20)
  --seed          of the first run; the others have the numbers that follow (default 1)
  --workers       processes in each run (default 4)
  --side-by-side  how many runs at the same time (default 2)
  --only          only these
  --json          writes the outcomes to a file
  --failures      where reports and histories of failed runs go (default torture-failures)

A store that is not installed is not run, and that is said. HOLDFAST_REQUIRE_STORES (all, or names with commas between
them) makes it a failure. Exit code 1: something was violated that is not admitted, or a run or a required store failed.`

export interface SuiteOptions {
  readonly help: boolean
  readonly seconds: number
  readonly seed: number
  readonly workers: number
  readonly sideBySide: number
  readonly only: readonly string[] | null
  readonly json: string | null
  readonly failures: string
}

/** Throws with a sentence for people if something is wrong. */
export function readOptions(args: readonly string[]): SuiteOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      help: { type: 'boolean', short: 'h' },
      seconds: { type: 'string' },
      seed: { type: 'string' },
      workers: { type: 'string' },
      'side-by-side': { type: 'string' },
      only: { type: 'string' },
      json: { type: 'string' },
      failures: { type: 'string' },
    },
  })
  return {
    help: values.help === true,
    seconds: whole('seconds', values.seconds, 20),
    seed: whole('seed', values.seed, 1),
    workers: whole('workers', values.workers, 4),
    sideBySide: whole('side-by-side', values['side-by-side'], 2),
    only: values.only === undefined ? null : values.only.split(',').map((name) => name.trim()),
    json: values.json ?? null,
    failures: values.failures ?? 'torture-failures',
  }
}

function whole(name: string, text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback
  if (!/^\d{1,9}$/.test(text) || Number(text) < 1) {
    throw new Error(`--${name} must be a whole number from 1, not ${JSON.stringify(text)}.`)
  }
  return Number(text)
}
