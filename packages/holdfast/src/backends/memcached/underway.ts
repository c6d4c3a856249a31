/** Marks an attempt whose claim has been released meanwhile: it shall write nothing more. */
export interface Ticket {
  ended: boolean
}

interface Running extends Ticket {
  call: Promise<unknown> | null
  /** An earlier attempt of the same claim that has not ended yet. */
  readonly earlier: Running | undefined
}

/** The attempts that are under way, by claim. Each takes several steps, between which a release may come. */
export class Underway {
  readonly #latest = new Map<string, Running>()

  async run<T>(claimId: string, attempt: (ticket: Ticket) => Promise<T>): Promise<T> {
    const running: Running = { ended: false, call: null, earlier: this.#latest.get(claimId) }
    this.#latest.set(claimId, running)
    const call = attempt(running)
    running.call = call
    try {
      return await call
    } finally {
      running.call = null
      if (this.#latest.get(claimId) === running) this.#latest.delete(claimId)
    }
  }

  /** Ends those of the claim, and waits for what they have sent already; null where there are none. */
  end(claimId: string): Promise<unknown> | null {
    const calls: Promise<unknown>[] = []
    for (let each = this.#latest.get(claimId); each !== undefined; each = each.earlier) {
      each.ended = true
      if (each.call !== null) calls.push(each.call)
    }
    return calls.length === 0 ? null : Promise.allSettled(calls)
  }
}
