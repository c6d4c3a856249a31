/** Measures contenders side by side, so that whatever else the machine does meets all of them alike. */

export interface Contender {
  readonly name: string
  /** Does the work `times` times over. */
  run(times: number): Promise<void>
}

export interface Plan {
  /** How many operations one contender does in one round. */
  readonly times: number
  readonly rounds: number
}

export interface Measured {
  readonly name: string
  /** Operations per second, one value for each round. */
  readonly rates: readonly number[]
}

/** Until the engine has compiled what is hot. A long-lived process is measured, not the first second of one. */
const WARM_UP_MS = 1_500
const WARM_UP_TIMES = 50

/** Told before every round, for those who look on. */
export type OnRound = (round: number, rounds: number) => void

/**
 * Every round asks each contender once. The order is drawn anew for every second round, and the round after goes through
 * it backwards: what one contender leaves behind, such as garbage to collect, falls on the next one, so nobody may
 * always have the same neighbours or always stand at an end. The answers come back in the order of the contenders, for
 * each of them one per round.
 */
export async function interleave<C, T>(
  contenders: readonly C[],
  rounds: number,
  ask: (contender: C) => Promise<T>,
  onRound: OnRound = () => {},
): Promise<readonly (readonly T[])[]> {
  const turns = contenders.map((contender) => ({ contender, answers: [] as T[] }))
  let order = turns
  for (let round = 0; round < rounds; round += 1) {
    onRound(round + 1, rounds)
    order = round % 2 === 0 ? shuffled(turns) : order.toReversed()
    for (const { contender, answers } of order) answers.push(await ask(contender))
  }
  return turns.map(({ answers }) => answers)
}

function shuffled<T>(values: readonly T[]): T[] {
  return values
    .map((value) => ({ value, rank: Math.random() }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ value }) => value)
}

/** How many operations per second each contender does. */
export async function rotate(
  contenders: readonly Contender[],
  plan: Plan,
  onRound?: OnRound,
): Promise<readonly Measured[]> {
  for (const contender of contenders) await warmUp(contender)
  const rates = await interleave(
    contenders,
    plan.rounds,
    (contender) => rateOf(contender, plan.times),
    onRound,
  )
  return contenders.map(({ name }, index) => ({ name, rates: rates[index] ?? [] }))
}

async function warmUp(contender: Contender): Promise<void> {
  const since = performance.now()
  while (performance.now() - since < WARM_UP_MS) await contender.run(WARM_UP_TIMES)
}

async function rateOf(contender: Contender, times: number): Promise<number> {
  const since = performance.now()
  await contender.run(times)
  return times / ((performance.now() - since) / 1_000)
}

export function median(values: readonly number[]): number {
  return percentile(values, 50)
}

/** By the nearest rank, so that it is always a value that occurred. */
export function percentile(values: readonly number[], percent: number): number {
  return percentiles(values, [percent])[0] ?? Number.NaN
}

/** Several at once, because sorting is what takes the time. */
export function percentiles(values: Iterable<number>, percents: readonly number[]): readonly number[] {
  const sorted = Float64Array.from(values).sort()
  return percents.map((percent) => {
    const rank = Math.ceil((percent / 100) * sorted.length)
    return sorted[Math.max(0, rank - 1)] ?? Number.NaN
  })
}

/** How many times as fast `one` is as `other`: the median over rounds, each round compared within itself. */
export function ratio(one: Measured, other: Measured): number {
  return medianRatio(one.rates, other.rates)
}

/** The same for any values of which both have one per round. */
export function medianRatio(ones: readonly number[], others: readonly number[]): number {
  return median(ones.map((value, round) => value / (others[round] ?? Number.NaN)))
}
