/**
 * One attempt of a claim to get a majority. Its number is part of what the nodes store, so that a command of an earlier
 * attempt which comes late can neither count for a later one nor delete what that one has.
 */
export interface Round {
  readonly number: string
  /** The votes came to a grant; known from the moment in which it was certain. */
  isGranted: boolean
  /** Nobody wants it any more: whatever a node still takes for it is given back. */
  isOver: boolean
  /** Until when its lease can last at the most, by this process's clock. */
  until: number
}

/** From so many on, those whose lease is over are looked for and forgotten. */
const KEPT = 1_000

/** The latest round of each claim that is being asked for or held. */
export class Rounds {
  readonly #rounds = new Map<string, Round>()
  #last = 0

  get(claimId: string): Round | undefined {
    return this.#rounds.get(claimId)
  }

  begin(claimId: string, now: number, ttlMs: number): Round {
    const earlier = this.#rounds.get(claimId)
    if (earlier !== undefined) earlier.isOver = true
    else if (this.#rounds.size >= KEPT) this.#forgetEnded(now)
    this.#last += 1
    const round = { number: String(this.#last), isGranted: false, isOver: false, until: now + ttlMs }
    this.#rounds.set(claimId, round)
    return round
  }

  end(claimId: string, round: Round | undefined = this.#rounds.get(claimId)): void {
    if (round === undefined) return
    round.isOver = true
    if (this.#rounds.get(claimId) === round) this.#rounds.delete(claimId)
  }

  clear(): void {
    this.#rounds.clear()
  }

  /** Most are forgotten when they are released; but nobody has to release what is lost. */
  #forgetEnded(now: number): void {
    for (const [id, round] of this.#rounds) if (round.isGranted && round.until < now) this.end(id, round)
  }
}
