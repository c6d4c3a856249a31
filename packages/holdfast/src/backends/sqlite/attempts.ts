/** The attempts of one claim that are under way, which a release of the claim ends. */
export interface Ticket {
  ended: boolean
  pending: number
}

/**
 * Who is still asking. A release must end the attempts of its claim that wait for a busy file: they would
 * come after it, and leave an entry that nobody removes.
 */
export class Attempts {
  readonly #tickets = new Map<string, Ticket>()

  start(claimId: string): Ticket {
    const ticket = this.#tickets.get(claimId) ?? { ended: false, pending: 0 }
    ticket.pending += 1
    this.#tickets.set(claimId, ticket)
    return ticket
  }

  finish(claimId: string, ticket: Ticket): void {
    ticket.pending -= 1
    if (ticket.pending === 0 && this.#tickets.get(claimId) === ticket) this.#tickets.delete(claimId)
  }

  /** Ends those under way. One that starts later is not meant. */
  end(claimId: string): void {
    const ticket = this.#tickets.get(claimId)
    if (ticket === undefined) return
    ticket.ended = true
    this.#tickets.delete(claimId)
  }
}
