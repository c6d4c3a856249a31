import type { EventName, EventValue, Micros } from '../../history/format.js'

/** One call as the search sees it: its effect is to be put somewhere between `call` and `ret`. */
export interface Operation {
  /** `over` is the end of a hold that its holder did not ask for: it ran out, was lost, or was taken away. */
  readonly f: EventName | 'over'
  readonly p: string
  readonly call: Micros
  /** Null if nobody knows whether it had an effect: then it may be put anywhere from `call` on, or left out. */
  readonly ret: Micros | null
  readonly input: EventValue | undefined
  readonly output: EventValue | undefined
  /** Which hold it begins or ends; -1 for none. */
  readonly hold: number
}

/** What a resource is supposed to do, as a state and what each operation makes of it. */
export interface Model<S> {
  readonly init: S
  /** The state after the operation; undefined if the operation cannot have happened in this state. */
  step(state: S, operation: Operation): S | undefined
  /** Equal for states that nobody can tell apart. */
  key(state: S): string
}

export function fenceOf(value: EventValue | undefined): bigint | null {
  return value?.fence === undefined ? null : BigInt(value.fence)
}
