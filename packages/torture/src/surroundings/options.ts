import { parseArgs } from 'node:util'
import { CHECKS, type CheckName, DEEP, SHORT, type Sizes } from './subject.js'

export const HELP = `Checks what surrounds a lock, for every recipe of every store: the lifetime of the process, the async context of
callbacks, memory on both sides, and the caller's own statements in transactions.

  npm run surroundings -- [--only TEXT] [--check NAME] [--deep] [--acquisitions N] [--seed N] [--side-by-side N]
                          [--source DIR] [--json FILE] [--mutants]

  --only TEXT       recipes whose name has this text in it, such as postgres or redis:set-nx; with --mutants: mutants
  --check NAME      only this check: ${CHECKS.join(', ')}; several with commas between them
  --deep            sizes for nightly runs; the growth of the heap is judged as well
  --acquisitions N  acquisitions of each kind of call in one round of the memory check
  --seed N          decides the random statements (default 1)
  --side-by-side N  how many servers are used at the same time (default 6)
  --source DIR      judges a build of the library in this folder of packages, instead of the built library
  --json FILE       writes the result of each recipe to a file
  --mutants         plants faults in the library, one by one: each must be found, and the library itself must pass

A store that is not installed is not run. HOLDFAST_REQUIRE_STORES (all, or names with commas between them) makes it a
failure. Exit code 1: a check found something, or a required store is missing.`

export interface Options {
  readonly help: boolean
  readonly only: string
  readonly checks: readonly CheckName[]
  readonly sizes: Sizes
  readonly seed: number
  readonly sideBySide: number
  readonly source: string | null
  readonly json: string | null
  readonly mutants: boolean
}

/** Throws with a sentence for people if something is wrong. */
export function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      help: { type: 'boolean', short: 'h' },
      only: { type: 'string' },
      check: { type: 'string' },
      deep: { type: 'boolean' },
      acquisitions: { type: 'string' },
      seed: { type: 'string' },
      'side-by-side': { type: 'string' },
      source: { type: 'string' },
      json: { type: 'string' },
      mutants: { type: 'boolean' },
    },
  })
  const sizes = values.deep === true ? DEEP : SHORT
  return {
    help: values.help === true,
    only: values.only ?? '',
    checks: values.check === undefined ? CHECKS : values.check.split(',').map(checkName),
    sizes: { ...sizes, acquisitions: whole('acquisitions', values.acquisitions, sizes.acquisitions) },
    seed: whole('seed', values.seed, 1),
    sideBySide: whole('side-by-side', values['side-by-side'], 6),
    source: values.source ?? null,
    json: values.json ?? null,
    mutants: values.mutants === true,
  }
}

function checkName(text: string): CheckName {
  const found = CHECKS.find((name) => name === text.trim())
  if (found === undefined)
    throw new Error(`There is no check ${JSON.stringify(text)}; the checks are ${CHECKS.join(', ')}.`)
  return found
}

function whole(name: string, text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback
  if (!/^\d{1,9}$/.test(text) || Number(text) < 1) {
    throw new Error(`--${name} must be a whole number from 1, not ${JSON.stringify(text)}.`)
  }
  return Number(text)
}
