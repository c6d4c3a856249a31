import type {
  Backend,
  Claim,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  Sink,
  Verdict,
} from 'holdfast/backend'
import { RelayBackend } from 'holdfast/testing'
import type { Micros } from '../history/format.js'
import { nowMicros } from '../history/recorder.js'

interface OpenRequest {
  readonly number: number
  readonly since: Micros
  queued: boolean
  granted: boolean
}

/** The requests of one process that are at the store: waiting, or granted and not given back. */
export class OpenRequests {
  readonly #onQueued: (resource: string) => void
  readonly #open = new Map<string, Map<string, OpenRequest>>()
  #sent = 0

  /** `onQueued`: the store has confirmed the position of a request for this resource in its queue. */
  constructor(onQueued: (resource: string) => void) {
    this.#onQueued = onQueued
  }

  /**
   * The request that a lock of this process was granted by. Where the process has several, it may be any of them, so the
   * time of the earliest counts.
   */
  grantedBy(resource: string): { readonly since?: Micros; readonly request?: number } {
    const [first, ...others] = this.#open.get(resource)?.values() ?? []
    // What is not known counts as sent before all others.
    if (first === undefined) return { since: 0 }
    // They were sent in this order.
    return others.length === 0 ? { since: first.since, request: first.number } : { since: first.since }
  }

  sent({ resource, id }: Claim): void {
    const requests = this.#open.get(resource) ?? new Map<string, OpenRequest>()
    this.#open.set(resource, requests)
    if (requests.has(id)) return
    this.#sent += 1
    requests.set(id, { number: this.#sent, since: nowMicros(), queued: false, granted: false })
  }

  answered({ resource, id }: Claim, { kind }: Verdict): void {
    const request = this.#open.get(resource)?.get(id)
    if (request === undefined) return
    if (kind === 'refused' || kind === 'mismatched') this.ended(resource, id)
    if (kind === 'granted') request.granted = true
    if (kind !== 'waiting' || request.queued) return
    request.queued = true
    this.#onQueued(resource)
  }

  ended(resource: string, id: string): void {
    const requests = this.#open.get(resource)
    requests?.delete(id)
    if (requests?.size === 0) this.#open.delete(resource)
  }

  /** The store pushed a grant. */
  granted(id: string): void {
    for (const requests of this.#open.values()) {
      const request = requests.get(id)
      if (request !== undefined) request.granted = true
    }
  }

  /**
   * The store does not have it any more. A request that waits is sent again under its id, and a late answer may be about a
   * position that it had before. So it counts from when it was first sent.
   */
  lost(id: string): void {
    for (const [resource, requests] of this.#open) {
      if (requests.get(id)?.granted === true) this.ended(resource, id)
    }
  }
}

/** Stands between the library and its driver of the store, and notes which requests of this process are there. */
export class RecordedStore extends RelayBackend {
  readonly #requests: OpenRequests

  constructor(inner: Backend, requests: OpenRequests) {
    super(inner)
    this.#requests = requests
  }

  override open(sink: Sink): Promise<void> {
    return super.open({
      granted: (id, fence) => {
        this.#requests.granted(id)
        sink.granted(id, fence)
      },
      wanted: (id) => sink.wanted(id),
      hint: (resource) => sink.hint(resource),
      lost: (id, reason) => {
        this.#requests.lost(id)
        sink.lost(id, reason)
      },
    })
  }

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    this.#requests.sent(claim)
    const verdict = await super.attempt(claim, patience)
    this.#requests.answered(claim, verdict)
    return verdict
  }

  override async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const renewals = await super.renew(requests)
    for (const [index, { claim }] of requests.entries()) {
      if (renewals[index] === 'lost') this.#requests.lost(claim.id)
    }
    return renewals
  }

  override release(claim: Claim): Promise<Release> {
    this.#requests.ended(claim.resource, claim.id)
    return super.release(claim)
  }
}
