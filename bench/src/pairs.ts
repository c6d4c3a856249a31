/** Taking a lock that nobody else wants and giving it back, by several ways in turn. */

import { type Bench, perSecond, sayRound } from './group.js'
import { atLeast, type Row } from './report.js'
import { type Measured, median, ratio, rotate } from './rotation.js'

const WARM_UP = 2_000
const WARM_UP_IN_FLIGHT = 64

/** Takes a lock and gives it back. */
export interface Pair {
  once(name: string): Promise<void>
  close(): Promise<void>
}

/** Does it `times` times over, so many at once, each on a name of its own. */
async function many(pair: Pair, name: string, times: number, inFlight: number): Promise<void> {
  const key = name.replaceAll(/\W+/g, '-')
  let left = times
  const worker = async (_: unknown, index: number): Promise<void> => {
    while (left > 0) {
      left -= 1
      await pair.once(`${key}-${index}`)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
}

export interface PairsPlan {
  readonly inFlight: number
  /** How often each is done in one round. */
  readonly times: number
  readonly rounds: number
}

/** Measures all of them in one run, interleaved, and closes them. */
export async function measurePairs(
  bench: Bench,
  pairs: readonly (readonly [string, Pair])[],
  { inFlight, times, rounds }: PairsPlan,
): Promise<readonly Measured[]> {
  const running = pairs.map(([name, pair]) => ({
    name,
    run: (count: number) => many(pair, name, count, inFlight),
  }))
  bench.say('warming up')
  // The engine compiles what has run some thousand times, and nobody should be measured before.
  for (const [name, pair] of pairs) await many(pair, name, WARM_UP, WARM_UP_IN_FLIGHT)
  const measured = await rotate(running, { times, rounds }, sayRound(bench))
  for (const [, pair] of pairs) await pair.close()
  return measured
}

/** One against another. Without a bar it is shown and judged by nobody. */
export function compare(
  what: string,
  one: Measured | undefined,
  other: Measured | undefined,
  bar: number | null,
): Row {
  if (one === undefined || other === undefined) throw new Error(`Somebody was not measured: ${what}.`)
  return {
    what,
    value: perSecond(median(one.rates)),
    against: `${other.name}: ${perSecond(median(other.rates))}`,
    figure: ratio(one, other),
    ...(bar === null ? {} : { bar: atLeast(bar) }),
  }
}
