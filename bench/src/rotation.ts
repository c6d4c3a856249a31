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

/** Every round runs each contender once, and the order turns round from one round to the next. */
export async function rotate(contenders: readonly Contender[], plan: Plan): Promise<readonly Measured[]> {
  for (const contender of contenders) await warmUp(contender)
  const rates = new Map<string, number[]>(contenders.map(({ name }) => [name, []]))
  for (let round = 0; round < plan.rounds; round += 1) {
    const order = round % 2 === 0 ? contenders : contenders.toReversed()
    for (const contender of order) rates.get(contender.name)?.push(await rateOf(contender, plan.times))
  }
  return [...rates].map(([name, values]) => ({ name, rates: values }))
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
  const sorted = values.toSorted((a, b) => a - b)
  const rank = Math.ceil((percent / 100) * sorted.length)
  return sorted[Math.max(0, rank - 1)] ?? Number.NaN
}

/** How many times as fast `one` is as `other`: the median over rounds, each round compared within itself. */
export function ratio(one: Measured, other: Measured): number {
  return median(one.rates.map((rate, round) => rate / (other.rates[round] ?? Number.NaN)))
}
