/** What the command line asks for. */

import { parseArgs } from 'node:util'
import type { Group } from './group.js'

export interface Wish {
  readonly help: boolean
  readonly quick: boolean
  readonly assert: boolean
  readonly minutes: number
  readonly groups: readonly Group[]
}

export function parseWish(args: readonly string[], known: readonly Group[]): Wish {
  const { values } = parseArgs({
    args: [...args],
    options: {
      help: { type: 'boolean', short: 'h', default: false },
      quick: { type: 'boolean', default: false },
      assert: { type: 'boolean', default: false },
      minutes: { type: 'string', default: '1' },
      only: { type: 'string', multiple: true, default: [] },
    },
  })
  const words = values.only
    .flatMap((list) => list.split(','))
    .map((word) => word.trim())
    .filter((word) => word !== '')
  const { help, quick, assert } = values
  return { help, quick, assert, minutes: minutesIn(values.minutes), groups: select(words, known) }
}

function minutesIn(text: string): number {
  const minutes = Number(text)
  if (!(minutes > 0 && minutes <= 600)) throw new Error('`--minutes` takes a number above 0 and up to 600.')
  return minutes
}

/** A word that fits no group is an error, because a typing mistake would otherwise measure nothing and pass. */
function select(words: readonly string[], known: readonly Group[]): readonly Group[] {
  for (const word of words) {
    if (!known.some(({ name }) => name.includes(word))) {
      throw new Error(`No group fits '${word}'; the groups are ${known.map(({ name }) => name).join(', ')}.`)
    }
  }
  if (words.length === 0) return known
  return known.filter(({ name }) => words.some((word) => name.includes(word)))
}

export function helpText(known: readonly Group[]): string {
  const width = Math.max(...known.map(({ name }) => name.length))
  return [
    'Runs the benchmarks and prints tables; results also go to bench/results as Markdown, JSON and SVG.',
    '',
    'Usage: npm run bench -- [--only WORDS] [--quick] [--assert] [--minutes N]',
    '',
    '  --only WORDS  only the groups whose name contains one of the words, with commas between them',
    '  --quick       fewer operations and rounds: rougher numbers in a fraction of the time',
    '  --assert      ends with exit code 1 if a bar is missed',
    '  --minutes N   for how long memory is watched where that is measured; default 1',
    '  --help        this text',
    '',
    'Groups:',
    ...known.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`),
    '',
    'The groups of a server start one of their own on the loopback address.',
  ].join('\n')
}
