import type { Claim, Release, Timer, Timers } from 'holdfast/backend'

const RETRY_MS = 250

/** What the drivers of session stores do: a release is repeated until the store has answered it. */
export class PersistentRelease {
  readonly #timers: Timers
  readonly #send: (claim: Claim) => Promise<Release>
  readonly #open = new Map<string, Claim>()
  #timer: Timer | null = null

  constructor(timers: Timers, send: (claim: Claim) => Promise<Release>) {
    this.#timers = timers
    this.#send = send
  }

  async release(claim: Claim): Promise<Release> {
    this.#open.set(claim.id, claim)
    this.#schedule()
    const outcome = await this.#send(claim)
    this.#open.delete(claim.id)
    return outcome
  }

  stop(): void {
    this.#open.clear()
    this.#timer?.cancel()
    this.#timer = null
  }

  #schedule(): void {
    this.#timer ??= this.#timers.start(RETRY_MS, () => this.#repeat(), false)
  }

  #repeat(): void {
    this.#timer = null
    for (const [id, claim] of this.#open) {
      this.#send(claim).then(
        () => this.#open.delete(id),
        () => false,
      )
    }
    if (this.#open.size > 0) this.#schedule()
  }
}
