import type { Model, Operation } from './operation.js'

export interface SearchBounds {
  /** How many different states are looked at before giving up. */
  readonly states?: number
  readonly timeMs?: number
}

export type SearchResult =
  | { readonly verdict: 'valid'; readonly states: number }
  | {
      readonly verdict: 'invalid'
      readonly states: number
      /** How many operations fit into an order at the best. */
      readonly fitted: number
      /** The operation that fits nowhere after those, and what was under way beside it. */
      readonly stuck: Operation
      readonly beside: readonly Operation[]
    }
  | { readonly verdict: 'undecided'; readonly states: number; readonly why: string }

const STATES_MAX = 1_000_000
const TIME_MAX_MS = 10_000
/** What the states that were seen may take, in words of four bytes. */
const WORDS_MAX = 64 << 20
const LOOK_AT_CLOCK_EVERY = 4_096

/**
 * Looks for an order of all operations that the model allows and that respects time, after Wing and Gong, with Lowe's
 * memory of what was tried. It takes the first operation that fits, and goes back when it comes to an answer whose
 * operation it has not placed.
 */
export function searchOrder<S>(
  model: Model<S>,
  operations: readonly Operation[],
  bounds: SearchBounds = {},
): SearchResult {
  return new Search(model, operations, bounds).run()
}

class Search<S> {
  readonly #model: Model<S>
  readonly #operations: readonly Operation[]
  readonly #statesMax: number
  readonly #endsAt: number
  /** A ring of calls and answers in order of time: entry 0 is its head, 2i+1 the call of i, 2i+2 its answer. */
  readonly #next: Int32Array
  readonly #previous: Int32Array
  readonly #placed: Uint32Array
  readonly #seen = new Map<number, { readonly placed: Uint32Array; readonly key: string }[]>()
  readonly #path: { readonly operation: number; readonly state: S }[] = []
  #toPlace: number
  #hash = 0
  #states = 0
  #best = { placed: -1, stuck: 0, beside: [] as Operation[] }

  constructor(model: Model<S>, operations: readonly Operation[], bounds: SearchBounds) {
    this.#model = model
    this.#operations = operations
    const words = Math.max(1, Math.ceil(operations.length / 32))
    this.#statesMax = Math.min(bounds.states ?? STATES_MAX, Math.ceil(WORDS_MAX / words))
    this.#endsAt = performance.now() + (bounds.timeMs ?? TIME_MAX_MS)
    this.#placed = new Uint32Array(words)
    this.#toPlace = operations.filter(({ ret }) => ret !== null).length
    this.#next = new Int32Array(2 * operations.length + 1)
    this.#previous = new Int32Array(2 * operations.length + 1)
    this.#link()
  }

  /** At one moment calls come before answers, since nobody can tell which was first. */
  #link(): void {
    const entries: { at: number; entry: number }[] = []
    this.#operations.forEach(({ call, ret }, index) => {
      entries.push({ at: call, entry: 2 * index + 1 })
      if (ret !== null) entries.push({ at: Math.max(ret, call), entry: 2 * index + 2 })
    })
    entries.sort((a, b) => a.at - b.at || (b.entry % 2) - (a.entry % 2) || a.entry - b.entry)
    let last = 0
    for (const { entry } of entries) {
      this.#next[last] = entry
      this.#previous[entry] = last
      last = entry
    }
    this.#next[last] = 0
    this.#previous[0] = last
  }

  run(): SearchResult {
    let state = this.#model.init
    let entry = this.#next[0] ?? 0
    for (let turns = 1; this.#toPlace > 0; turns++) {
      if (turns % LOOK_AT_CLOCK_EVERY === 0 && performance.now() > this.#endsAt) {
        return { verdict: 'undecided', states: this.#states, why: 'it took too long' }
      }
      if (entry % 2 === 1) {
        const index = (entry - 1) / 2
        const after = this.#model.step(state, this.#operation(index))
        if (after === undefined || !this.#isNew(index, after)) {
          entry = this.#next[entry] ?? 0
          continue
        }
        if (this.#states > this.#statesMax) {
          return { verdict: 'undecided', states: this.#states, why: 'there were too many possibilities' }
        }
        this.#path.push({ operation: index, state })
        this.#lift(index)
        state = after
        entry = this.#next[0] ?? 0
        continue
      }
      this.#remember(entry)
      const back = this.#path.pop()
      if (back === undefined) return this.#failure()
      state = back.state
      this.#unlift(back.operation)
      entry = this.#next[2 * back.operation + 1] ?? 0
    }
    return { verdict: 'valid', states: this.#states }
  }

  #operation(index: number): Operation {
    const operation = this.#operations[index]
    if (operation === undefined) throw new Error('The ring of operations is broken.')
    return operation
  }

  /** Whether the same operations have not led to the same state in another order before. */
  #isNew(index: number, after: S): boolean {
    const word = index >>> 5
    const bit = 1 << (index & 31)
    const key = this.#model.key(after)
    this.#placed[word] = (this.#placed[word] ?? 0) | bit
    const hash = (this.#hash ^ mixed(index)) | 0
    const alike = this.#seen.get(hash)
    const known = alike?.some((seen) => seen.key === key && sameWords(seen.placed, this.#placed)) === true
    if (!known) {
      const seen = { placed: this.#placed.slice(), key }
      if (alike === undefined) this.#seen.set(hash, [seen])
      else alike.push(seen)
      this.#states++
    }
    this.#placed[word] = (this.#placed[word] ?? 0) & ~bit
    return !known
  }

  #lift(index: number): void {
    this.#take(2 * index + 1)
    if (this.#operation(index).ret !== null) {
      this.#take(2 * index + 2)
      this.#toPlace--
    }
    this.#flip(index)
  }

  #unlift(index: number): void {
    if (this.#operation(index).ret !== null) {
      this.#put(2 * index + 2)
      this.#toPlace++
    }
    this.#put(2 * index + 1)
    this.#flip(index)
  }

  #take(entry: number): void {
    const before = this.#previous[entry] ?? 0
    const after = this.#next[entry] ?? 0
    this.#next[before] = after
    this.#previous[after] = before
  }

  #put(entry: number): void {
    this.#next[this.#previous[entry] ?? 0] = entry
    this.#previous[this.#next[entry] ?? 0] = entry
  }

  #flip(index: number): void {
    const word = index >>> 5
    this.#placed[word] = (this.#placed[word] ?? 0) ^ (1 << (index & 31))
    this.#hash = (this.#hash ^ mixed(index)) | 0
  }

  /** The furthest that any order came tells people most about what is wrong. */
  #remember(answer: number): void {
    if (this.#path.length <= this.#best.placed) return
    const stuck = (answer - 2) / 2
    const beside: Operation[] = []
    for (let entry = this.#next[0] ?? 0; entry !== answer && entry !== 0; entry = this.#next[entry] ?? 0) {
      const index = (entry - 1) / 2
      if (index !== stuck && beside.length < 8) beside.push(this.#operation(index))
    }
    this.#best = { placed: this.#path.length, stuck, beside }
  }

  #failure(): SearchResult {
    const { placed, stuck, beside } = this.#best
    return {
      verdict: 'invalid',
      states: this.#states,
      fitted: placed,
      stuck: this.#operation(stuck),
      beside,
    }
  }
}

/** Spreads small numbers over 32 bits, so that sets of them seldom fall together. */
function mixed(index: number): number {
  let bits = Math.imul(index + 1, 0x9e3779b1)
  bits = Math.imul(bits ^ (bits >>> 15), 0x85ebca6b)
  return bits ^ (bits >>> 13)
}

function sameWords(a: Uint32Array, b: Uint32Array): boolean {
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return false
  return true
}
