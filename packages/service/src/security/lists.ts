import { ANYBODY, type Principal } from './principal.js'
import { TooManyError } from './refused.js'

export interface ListBounds {
  readonly listsMax: number
  readonly listsPerPrincipalMax: number
}

/** Counts the lists that are being made. Each walks through the whole store, so a few of them keep a processor busy. */
export class ListLimits {
  readonly #bounds: ListBounds
  readonly #byPrincipal = new Map<string, number>()
  /** The end of the list of a token that was asked for last. */
  readonly #last = new Map<string, Promise<void>>()
  #all = 0

  constructor(bounds: ListBounds) {
    this.#bounds = bounds
  }

  /** Makes one more, unless there are too many. Callers without a token share all that there are. */
  async make<T>(principal: Principal, list: () => Promise<T>): Promise<T> {
    const { listsMax, listsPerPrincipalMax } = this.#bounds
    const { name } = principal
    const own = this.#byPrincipal.get(name) ?? 0
    if (this.#all >= listsMax) throw new TooManyError('Too many lists are being made already.')
    if (principal !== ANYBODY && own >= listsPerPrincipalMax) {
      throw new TooManyError('Too many lists are being made with this token already.')
    }
    this.#count(name, 1)
    try {
      return principal === ANYBODY ? await list() : await this.#inTurn(name, list)
    } finally {
      this.#count(name, -1)
    }
  }

  /** Those of one token are made one after the other, so that several take no more time of each turn than one. */
  async #inTurn<T>(name: string, list: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name)
    const made = before === undefined ? list() : before.then(list)
    const settled = made.then(
      () => {},
      () => {},
    )
    this.#last.set(name, settled)
    try {
      return await made
    } finally {
      if (this.#last.get(name) === settled) this.#last.delete(name)
    }
  }

  /** A count of zero is taken out, or the map would remember every token that there ever was. */
  #count(principal: string, by: 1 | -1): void {
    const own = (this.#byPrincipal.get(principal) ?? 0) + by
    this.#all += by
    if (own === 0) this.#byPrincipal.delete(principal)
    else this.#byPrincipal.set(principal, own)
  }
}
