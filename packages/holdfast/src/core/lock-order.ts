import { quote } from './errors.js'

export interface LockOrderOptions {
  /** `warn`: tell, and go on. `throw`: reject with `LockOrderError` before anything is acquired. */
  readonly mode: 'warn' | 'throw'
  /**
   * What a name is an example of: `account:17` of `account`. The order is then that of the groups; inside one group it
   * is that of the names. Left out: every name is a group of its own.
   */
  readonly group?: (name: string) => string
}

/** One name taken while another was held, and where that was seen first. */
export interface LockOrderEdge {
  readonly held: string
  readonly taken: string
  readonly stack: string
}

/** Names that are taken in a circle of orders. */
export interface LockInversion {
  /** What was about to be done now. */
  readonly now: LockOrderEdge
  /** What was done before: from the name that is taken now to the one that is held now. */
  readonly before: readonly LockOrderEdge[]
}

/** One name in the order, with the store it belongs to. */
export interface OrderedName {
  /** Not the kind of store: two servers of one kind may have the same names, and nothing to do with each other. */
  readonly store: string
  readonly name: string
}

/** Enough for the names of a program, and a bound where names are made of numbers and nobody has grouped them. */
const EDGES_MAX = 4_096

/**
 * Remembers which name was taken while which other was held, and notices when a new pair closes a circle: two pieces of
 * work that meet there at the same moment would wait for each other, even if none ever has so far.
 */
export class LockOrder {
  readonly #edgesMax: number
  readonly #takenAfter = new Map<string, Map<string, LockOrderEdge>>()
  readonly #told = new Set<string>()
  #edges = 0

  constructor(edgesMax = EDGES_MAX) {
    this.#edgesMax = edgesMax
  }

  /** Says what is wrong with taking one name while another is held; null if nothing is, or if it was told before. */
  check(
    held: OrderedName,
    taken: OrderedName,
    { mode, group = (name) => name }: LockOrderOptions,
    stackOf: () => string,
  ): LockInversion | null {
    const groups = [group(held.name), group(taken.name)] as const
    const isInside = groups[0] === groups[1]
    const from = keyOf(held.store, isInside, isInside ? held.name : groups[0])
    const to = keyOf(taken.store, isInside, isInside ? taken.name : groups[1])
    if (from === to || this.#takenAfter.get(from)?.has(to)) return null
    const before = this.#pathBetween(to, from)
    const now = { held: held.name, taken: taken.name, stack: stackOf() }
    // What is refused is never done, so it is no order that others could be compared with.
    if (before === null || mode === 'warn') this.#remember(from, to, now)
    if (before === null) return null
    return mode === 'throw' || this.#isNews(`${from} ${to}`) ? { now, before } : null
  }

  #remember(from: string, to: string, edge: LockOrderEdge): void {
    if (this.#edges >= this.#edgesMax) return
    const known = this.#takenAfter.get(from) ?? new Map<string, LockOrderEdge>()
    known.set(to, edge)
    this.#takenAfter.set(from, known)
    this.#edges += 1
  }

  /** An order that there was no room to remember is new each time. */
  #isNews(pair: string): boolean {
    if (this.#told.has(pair) || this.#told.size >= this.#edgesMax) return false
    this.#told.add(pair)
    return true
  }

  /** The shortest way by orders that were seen; null if there is none. */
  #pathBetween(from: string, to: string): LockOrderEdge[] | null {
    const cameBy = new Map<string, { readonly from: string; readonly edge: LockOrderEdge } | null>([
      [from, null],
    ])
    // A map is walked in the order in which it grows.
    for (const at of cameBy.keys()) {
      if (at === to) break
      for (const [next, edge] of this.#takenAfter.get(at) ?? []) {
        if (!cameBy.has(next)) cameBy.set(next, { from: at, edge })
      }
    }
    if (!cameBy.has(to)) return null
    const path: LockOrderEdge[] = []
    for (let came = cameBy.get(to); came; came = cameBy.get(came.from)) path.unshift(came.edge)
    return path
  }
}

function keyOf(store: string, isInside: boolean, text: string): string {
  return JSON.stringify([store, isInside, text])
}

/** The inversion in one sentence. */
export function describeInversion({ now, before }: LockInversion): string {
  const earlier = before.map(({ held, taken }) => `${quote(taken)} while ${quote(held)} was held`).join(', ')
  return (
    `${quote(now.taken)} is taken while ${quote(now.held)} is held, and before that ${earlier}: ` +
    'where these meet, they wait for each other for ever. Take them in one order everywhere, or together with `all()`.'
  )
}

/** Where it happens now, and where the other orders were seen first. */
export function stacksOf({ now, before }: LockInversion): string {
  const part = ({ held, taken, stack }: LockOrderEdge): string =>
    `${quote(taken)} taken while ${quote(held)} is held:\n${stack}`
  return [now, ...before].map(part).join('\n')
}
