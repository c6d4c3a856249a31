import type {
  Backend,
  Claim,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  ResourceView,
  Sink,
  Verdict,
} from 'holdfast/backend'
import { RelayBackend } from 'holdfast/testing'
import { type Caller, ContextChecks } from './contexts.js'
import type { Excuses } from './excuses.js'
import { type Ask, Fairness } from './fairness.js'
import { Lifetime } from './lifetime.js'
import type { SimProcess } from './process.js'
import type { SimStore } from './stores/store.js'

/** What surrounds a lock: async contexts, the lifetime of the process, listeners, and the order among callers. */
export class CallerChecks {
  readonly contexts: ContextChecks
  readonly fairness: Fairness
  readonly lifetime = new Lifetime()
  /** How often a fault has changed the content of the store. */
  storeFaults = 0
  #failure: Error | null = null

  constructor(store: SimStore, excuses: Excuses) {
    this.fairness = new Fairness(store, excuses)
    this.contexts = new ContextChecks((violation) => this.fail(violation))
  }

  /** For callbacks, whose errors would not reach the world. The world fails after this step. */
  fail(error: Error): void {
    this.#failure ??= error
  }

  /** Sees what the client of a process asks of the store. */
  watch(process: SimProcess, backend: Backend, requestMs: number): Backend {
    return new WatchedBackend(process, backend, this, requestMs)
  }

  /** A call that takes a lock is under way until the returned function is called. */
  begin(caller: Caller, ask: Ask): (served: boolean) => void {
    const { process, resource } = ask
    caller.asks(resource)
    this.fairness.asks(ask)
    this.lifetime.callBegins(process)
    return (served) => {
      caller.asked(resource)
      this.fairness.asked(ask, served)
      this.lifetime.callEnds(process)
    }
  }

  afterStep(): void {
    if (this.#failure !== null) throw this.#failure
    this.fairness.afterStep()
    this.lifetime.afterStep()
  }

  storeStruck(): void {
    this.storeFaults += 1
    this.fairness.storeStruck()
  }

  processDies(process: SimProcess): void {
    this.fairness.processDies(process)
    this.lifetime.processDies(process)
  }

  /** In the calm: every call is over. */
  assertAllOver(processes: readonly SimProcess[]): void {
    this.lifetime.assertAllOver(processes)
    this.contexts.assertAllOver()
  }

  stop(): void {
    this.contexts.stop()
  }
}

/** A request that is given up at its deadline has been given up by now. */
const DEADLINE_SLACK_MS = 30

class WatchedBackend extends RelayBackend {
  readonly #process: SimProcess
  readonly #checks: CallerChecks
  readonly #requestMs: number
  /** The claims with a release that was not answered. */
  readonly #releasing = new Set<string>()

  constructor(process: SimProcess, inner: Backend, checks: CallerChecks, requestMs: number) {
    super(inner)
    this.#process = process
    this.#checks = checks
    this.#requestMs = requestMs
  }

  override open(sink: Sink): Promise<void> {
    return super.open({
      granted: (id, fence) => sink.granted(id, fence),
      wanted: (id) => {
        this.#checks.fairness.wanted(this.#process, id)
        sink.wanted(id)
      },
      hint: (resource) => sink.hint(resource),
      lost: (id, reason) => sink.lost(id, reason),
    })
  }

  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const { contexts, fairness } = this.#checks
    contexts.attempting(claim)
    fairness.attempting(this.#process, claim)
    return this.#request(super.attempt(claim, patience))
  }

  override renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    this.#checks.contexts.renewing(requests)
    return this.#request(super.renew(requests))
  }

  override release(claim: Claim): Promise<Release> {
    const { fairness } = this.#checks
    fairness.releasing(this.#process, claim)
    // Another release of the claim that was not answered may be the one that took it away.
    const isFirst = !this.#releasing.has(claim.id)
    this.#releasing.add(claim.id)
    const released = super.release(claim).then((outcome) => {
      if (isFirst) this.#releasing.delete(claim.id)
      if (isFirst && outcome === 'gone') fairness.gone(this.#process, claim)
      return outcome
    })
    return this.#request(released)
  }

  override inspect(resource: string): Promise<ResourceView> {
    return this.#request(super.inspect(resource))
  }

  /** The connection of a driver keeps the process running while a request is under way, until the library gives it up. */
  #request<T>(answer: Promise<T>): Promise<T> {
    const untilMs = this.#process.monotonicMs() + this.#requestMs + DEADLINE_SLACK_MS
    const over = this.#checks.lifetime.requestBegins(this.#process, untilMs)
    answer.then(over, over)
    return answer
  }
}
