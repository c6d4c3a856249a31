import type {
  Backend,
  Claim,
  Eviction,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  ResourceView,
  Sink,
  Verdict,
} from '../../core/backend.js'
import { BackendUnavailableError, OutcomeUnknownError } from '../../core/errors.js'
import { RelayBackend } from './relay-backend.js'
import { sleep } from './waiting.js'

export type FaultyMethod = 'attempt' | 'renew' | 'release' | 'inspect' | 'evict'

export type CallFault =
  /** Fails before anything is sent, with `BackendUnavailableError`. */
  | 'refuse'
  /** The store does it, and the caller gets `OutcomeUnknownError` instead of the answer. */
  | 'lose-reply'
  /** Nothing is sent, and the promise never settles. */
  | 'swallow-request'
  /** The store does it, and the promise never settles. */
  | 'swallow-reply'
  /** The store gets it `delayMs` later. */
  | 'delay-request'
  /** The store does it at once, and the answer comes `delayMs` later. */
  | 'delay-reply'

export type PushFault = 'drop' | 'delay' | 'repeat'

interface Counted {
  /** How many calls pass before the first fault. Default 0. */
  readonly after?: number
  /** How many calls it strikes. Default: every one from then on. */
  readonly times?: number
  readonly delayMs?: number
}

export interface CallRule extends Counted {
  readonly on: FaultyMethod | readonly FaultyMethod[]
  readonly fault: CallFault
  /** What `refuse` and `lose-reply` reject with, where it shall not be the usual error. */
  readonly error?: Error
}

/** A rule for what the store sends by itself: grants and hints. */
export interface PushRule extends Counted {
  readonly on: 'push'
  readonly fault: PushFault
}

export type FaultRule = CallRule | PushRule

interface ActiveRule {
  readonly rule: FaultRule
  passes: number
  strikes: number
}

/** Which calls go wrong, and how. It may change while the backend is in use; the first rule that applies strikes. */
export class FaultPlan {
  readonly #rules: ActiveRule[] = []
  #struck = 0
  #delayed = 0

  constructor(...rules: readonly FaultRule[]) {
    for (const rule of rules) this.add(rule)
  }

  /** How many calls a fault has struck so far. */
  get struck(): number {
    return this.#struck
  }

  /** How many calls of `delay-request` have not been answered by the store yet. */
  get delayed(): number {
    return this.#delayed
  }

  add(rule: FaultRule): this {
    this.#rules.push({ rule, passes: rule.after ?? 0, strikes: rule.times ?? Number.POSITIVE_INFINITY })
    return this
  }

  /** From now on everything goes well. What already waits for a delay or for ever stays as it is. */
  clear(): void {
    this.#rules.length = 0
  }

  /** The rule that strikes this call, if one does. */
  callRule(method: FaultyMethod): CallRule | null {
    for (const active of this.#rules) {
      const { rule } = active
      if (rule.on === 'push' || !isOn(rule, method)) continue
      if (this.#strikes(active)) return rule
    }
    return null
  }

  /** Sends a call after the delay, and counts it until the store has answered. */
  async delay<T>(delayMs: number, send: () => Promise<T>): Promise<T> {
    this.#delayed += 1
    try {
      await sleep(delayMs)
      return await send()
    } finally {
      this.#delayed -= 1
    }
  }

  pushRule(): PushRule | null {
    for (const active of this.#rules) {
      const { rule } = active
      if (rule.on === 'push' && this.#strikes(active)) return rule
    }
    return null
  }

  #strikes(active: ActiveRule): boolean {
    if (active.passes > 0) {
      active.passes -= 1
      return false
    }
    if (active.strikes <= 0) return false
    active.strikes -= 1
    this.#struck += 1
    return true
  }
}

function isOn(rule: CallRule, method: FaultyMethod): boolean {
  return typeof rule.on === 'string' ? rule.on === method : rule.on.includes(method)
}

/** Puts a layer in front of a backend that loses, delays and refuses by plan. */
export function faulty(backend: Backend, plan: FaultPlan | readonly FaultRule[]): Backend {
  return new FaultyBackend(backend, plan instanceof FaultPlan ? plan : new FaultPlan(...plan))
}

class FaultyBackend extends RelayBackend {
  readonly #plan: FaultPlan

  constructor(inner: Backend, plan: FaultPlan) {
    super(inner)
    this.#plan = plan
  }

  override open(sink: Sink): Promise<void> {
    return super.open({
      granted: (claimId, fence) => this.#push(() => sink.granted(claimId, fence)),
      wanted: (claimId) => this.#push(() => sink.wanted(claimId)),
      hint: (resource) => this.#push(() => sink.hint(resource)),
      lost: (claimId, reason) => sink.lost(claimId, reason),
    })
  }

  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    return this.#call('attempt', () => super.attempt(claim, patience))
  }

  override renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return this.#call('renew', () => super.renew(requests))
  }

  override release(claim: Claim): Promise<Release> {
    return this.#call('release', () => super.release(claim))
  }

  override inspect(resource: string): Promise<ResourceView> {
    return this.#call('inspect', () => super.inspect(resource))
  }

  override evict(resource: string, ref: string): Promise<Eviction> {
    return this.#call('evict', () => super.evict(resource, ref))
  }

  async #call<T>(method: FaultyMethod, send: () => Promise<T>): Promise<T> {
    const rule = this.#plan.callRule(method)
    if (rule === null) return await send()
    const context = { backend: this.name }
    switch (rule.fault) {
      case 'refuse':
        throw rule.error ?? new BackendUnavailableError('The request was refused by plan.', context)
      case 'lose-reply':
        await send()
        throw rule.error ?? new OutcomeUnknownError('The reply was lost by plan.', context)
      case 'swallow-request':
        return await never()
      case 'swallow-reply':
        await send()
        return await never()
      case 'delay-request':
        return await this.#plan.delay(rule.delayMs ?? 0, send)
      case 'delay-reply': {
        const answer = await send()
        await sleep(rule.delayMs ?? 0)
        return answer
      }
    }
  }

  #push(deliver: () => void): void {
    const rule = this.#plan.pushRule()
    if (rule === null) return deliver()
    switch (rule.fault) {
      case 'drop':
        return
      case 'repeat':
        deliver()
        void sleep(rule.delayMs ?? 0).then(deliver)
        return
      case 'delay':
        void sleep(rule.delayMs ?? 0).then(deliver)
    }
  }
}

function never<T>(): Promise<T> {
  return new Promise<T>(() => {})
}
