import { ANYBODY, type Principal } from '../security/principal.js'
import { TooManyError } from '../security/refused.js'

export interface ListenerBounds {
  readonly listenersMax: number
  readonly listenersPerPrincipalMax: number
}

/** Counts the event streams, of all callers and of each token, so that no token can take all of them. */
export class ListenerLimits {
  readonly #bounds: ListenerBounds
  readonly #byPrincipal = new Map<string, number>()
  #all = 0

  constructor(bounds: ListenerBounds) {
    this.#bounds = bounds
  }

  /** Lets one more listen, until the returned function is called. Callers without a token share all that there are. */
  enter(principal: Principal): () => void {
    const { listenersMax, listenersPerPrincipalMax } = this.#bounds
    const { name } = principal
    const own = this.#byPrincipal.get(name) ?? 0
    if (this.#all >= listenersMax) {
      throw new TooManyError(`There are ${listenersMax} event streams already, which is the limit.`, 5)
    }
    if (principal !== ANYBODY && own >= listenersPerPrincipalMax) {
      throw new TooManyError(
        `This token has ${listenersPerPrincipalMax} event streams already, which is the limit.`,
        5,
      )
    }
    this.#count(name, 1)
    let inside = true
    return () => {
      if (!inside) return
      inside = false
      this.#count(name, -1)
    }
  }

  #count(name: string, by: 1 | -1): void {
    const own = (this.#byPrincipal.get(name) ?? 0) + by
    this.#all += by
    if (own === 0) this.#byPrincipal.delete(name)
    else this.#byPrincipal.set(name, own)
  }
}
