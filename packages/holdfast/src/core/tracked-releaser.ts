import type { Backend, Claim } from './backend.js'
import type { Keeper } from './keeper.js'
import type { ClientSettings } from './options.js'
import { type ReleaseOutcome, Releaser } from './releaser.js'
import type { Runtime } from './runtime.js'
import type { Standing } from './standing.js'

/** While so many releases are repeated, for all callers or for one, those of claims whose place is not known here are not. */
const REPEATED_MAX = 4_000
const REPEATED_PER_CALLER_MAX = 1_000

/**
 * A releaser for claims whose ids come from outside, and may come again. It knows which ids still have a request under
 * way that could undo, or redo, what a new request of the same id is told.
 */
export class TrackedReleaser extends Releaser {
  readonly #runtime: Runtime
  readonly #settings: ClientSettings
  /** Attempts that have not been answered yet. */
  readonly #attempts = new Map<string, Set<Standing>>()
  /** Releases that have not been confirmed yet. */
  readonly #releases = new Map<string, number>()
  /** Releases that are repeated in the background. */
  #repeated = 0
  /** The same for each caller, by `owner.client`. */
  readonly #repeatedOf = new Map<string, number>()

  constructor(backend: Backend, runtime: Runtime, settings: ClientSettings, keeper: Keeper) {
    super(backend, runtime, settings, keeper)
    this.#runtime = runtime
    this.#settings = settings
  }

  /** A release of this claim may still take effect, so nothing new can be built on the claim. */
  isGivingBack(claimId: string): boolean {
    if (this.#releases.has(claimId)) return true
    for (const standing of this.#attempts.get(claimId) ?? []) if (standing.state === 'ended') return true
    return false
  }

  override follow(attempt: Promise<unknown>, standing: Standing): void {
    const { id } = standing.claim
    const same = this.#attempts.get(id)
    if (same === undefined) this.#attempts.set(id, new Set([standing]))
    else same.add(standing)
    // First what the base makes of a late answer, so that there is no moment at which nothing seems to be under way.
    super.follow(attempt, standing)
    const landed = (): void => {
      const now = this.#attempts.get(id)
      now?.delete(standing)
      if (now?.size === 0) this.#attempts.delete(id)
    }
    attempt.then(landed, landed)
  }

  override async release(standing: Standing): Promise<ReleaseOutcome> {
    const { claim } = standing
    // An attempt of an earlier visit could land behind this release; it is then undone, too.
    for (const same of this.#attempts.get(claim.id) ?? []) same.state = 'ended'
    this.#count(claim.id, 1)
    const outcome = await super.release(standing)
    this.#count(claim.id, -1)
    return outcome
  }

  /**
   * Anybody can write the text of a claim that never was, so only so many of those are repeated whose place is not known
   * here, and fewer for one caller, so that it does not take the room of others. Callers get `unconfirmed` and can release
   * again; otherwise the lease ends the claim.
   */
  protected override mayRetry({ lease, claim }: Standing): boolean {
    if (Number.isFinite(lease.sentAt)) return true
    const own = this.#repeatedOf.get(claim.owner.client) ?? 0
    return this.#repeated < REPEATED_MAX && own < REPEATED_PER_CALLER_MAX
  }

  /** A request that was not answered may still be on its way when a later one has been. */
  protected override retrying(over: Promise<void>, { id, owner }: Claim): void {
    this.#count(id, 1)
    this.#countRepeated(owner.client, 1)
    const lateMs = this.#settings.requestMs * 2
    void over.then(() => {
      this.#countRepeated(owner.client, -1)
      this.#runtime.timers.start(lateMs, () => this.#count(id, -1), false)
    })
  }

  #count(claimId: string, change: number): void {
    add(this.#releases, claimId, change)
  }

  #countRepeated(client: string, change: number): void {
    this.#repeated += change
    add(this.#repeatedOf, client, change)
  }
}

/** A count of zero is taken out, or the map would grow without end. */
function add(counts: Map<string, number>, key: string, change: number): void {
  const count = (counts.get(key) ?? 0) + change
  if (count === 0) counts.delete(key)
  else counts.set(key, count)
}
