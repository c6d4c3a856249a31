/** Locks over the HTTP interface of the lock service, whatever store it has. */

import { hostOf } from '../../core/address.js'
import type {
  Backend,
  Claim,
  Eviction,
  Guarantees,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  ResourceView,
  Verdict,
} from '../../core/backend.js'
import { writeClaim } from '../../core/claim-text.js'
import { InvalidInputError } from '../../core/errors.js'
import { fenceOf } from '../../core/hold.js'
import { checkKeys } from '../../core/options.js'
import { monotonicMs } from '../shared/clock.js'
import { partOf } from '../shared/names.js'
import { checkToken } from '../shared/opening.js'
import { SERVICE_PORT, tokenOfEnvironment } from './address.js'
import {
  modeOf,
  readBroken,
  readFacts,
  readPage,
  readRelease,
  readRenewals,
  readVerdict,
  readView,
  type ServiceFacts,
} from './answers.js'
import { always, ServiceClient } from './client.js'
import { releaseRepeated, strangeAnswer } from './errors.js'

export interface RemoteOptions {
  /** Instances of one service, like `127.0.0.1:4600` or `[::1]:4600`. The next is asked where one is not reached. */
  readonly hosts: readonly string[]
  /** Speak TLS. `ca`: the text of the certificate of the authority to trust, where it is not a public one. */
  readonly tls?: { readonly ca?: string } | undefined
  /** The bearer token. Default: what the variable `HOLDFAST_TOKEN` says, if anything. */
  readonly token?: string | undefined
}

/** The service takes so many in one request. */
const RENEWALS_MAX = 128
/** The longest that the service keeps a place for. */
const STAY_MAX_MS = 60_000
/** Each holds a connection. Beyond them, waiters ask now and then. */
const BLOCKING_MAX = 512
const PAGE_MAX = 500
const NOTHING_LANDED = Promise.resolve(false)
/** The interface of a store has no room for a reason; the client reports its own as an event. */
const REASON = 'evicted by a client of the library'

/** Asks the service what its store guarantees, and so rejects where it is not reached. */
export async function remoteBackend(options: RemoteOptions): Promise<Backend> {
  return await backendOver(clientFrom(options))
}

/** A client for the instances that options name. */
export function clientFrom(options: RemoteOptions): ServiceClient {
  checkKeys(options, ['hosts', 'tls', 'token'])
  const { hosts, tls, token } = options
  if (!Array.isArray(hosts) || hosts.length === 0 || hosts.some((host) => typeof host !== 'string')) {
    throw new InvalidInputError('hosts', `a list of addresses like \`127.0.0.1:${SERVICE_PORT}\``, hosts)
  }
  if (tls !== undefined) checkKeys(tls, ['ca'], 'tls')
  return new ServiceClient({
    hosts: hosts.map((host) => hostOf(host, SERVICE_PORT)),
    tls: tls ?? null,
    token: token === undefined ? tokenOfEnvironment() : checkToken(token),
  })
}

/** The same over whatever leads to the service. `close` ends the client. */
export async function backendOver(client: ServiceClient): Promise<Backend> {
  try {
    return new RemoteBackend(client, await factsOf(client))
  } catch (error) {
    client.close()
    throw error
  }
}

export async function factsOf(client: ServiceClient): Promise<ServiceFacts> {
  return readFacts(await client.ask({ method: 'GET', path: '/v1/store', mayRepeat: always }))
}

/** An attempt whose answer is awaited. */
interface UnderWay {
  readonly stop: AbortController
  /** The instance that has it now. */
  host: number
  isReleased: boolean
  /** Resolves, and never rejects, when it was answered or failed: whether something of the claim may stand after it. */
  landed: Promise<boolean>
}

class RemoteBackend implements Backend {
  readonly name = 'http'
  readonly guarantees: Guarantees
  readonly #client: ServiceClient
  readonly #waitMaxMs: number
  readonly #attempts = new Map<string, UnderWay>()
  /** Claims that were told to wait. */
  readonly #waiting = new Set<string>()
  #blocking = 0

  constructor(client: ServiceClient, { guarantees, waitMaxMs }: ServiceFacts) {
    this.guarantees = guarantees
    this.#client = client
    this.#waitMaxMs = waitMaxMs
  }

  /** The service was reached when its guarantees were asked for. It pushes nothing, so the sink is of no use. */
  async open(): Promise<void> {}

  async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    // The place is kept for the lease of a waiter, and the answer is there well before that is over.
    const stayMs = patience.waitMs === 0 ? 0 : Math.min(Math.ceil(patience.leaseMs), STAY_MAX_MS)
    const waitMs = this.#mayBlock(claim)
      ? Math.floor(Math.min(patience.waitMs, stayMs / 4, this.#waitMaxMs))
      : 0
    const underWay: UnderWay = {
      stop: new AbortController(),
      host: this.#client.host,
      isReleased: false,
      landed: NOTHING_LANDED,
    }
    // The core has given up on an earlier one; unless somebody hangs up, the service would serve both.
    this.#attempts.get(claim.id)?.stop.abort()
    this.#attempts.set(claim.id, underWay)
    const verdict = this.#ask(claim, patience, { waitMs, stayMs }, underWay)
    underWay.landed = verdict.then(
      ({ kind }) => kind === 'granted' || kind === 'waiting',
      () => false,
    )
    try {
      return await verdict
    } finally {
      if (this.#attempts.get(claim.id) === underWay) this.#attempts.delete(claim.id)
    }
  }

  async #ask(
    claim: Claim,
    patience: Patience,
    { waitMs, stayMs }: { readonly waitMs: number; readonly stayMs: number },
    underWay: UnderWay,
  ): Promise<Verdict> {
    if (waitMs > 0) this.#blocking += 1
    const sentAt = monotonicMs()
    try {
      const answer = await this.#client.ask({
        method: 'POST',
        path: pathOf(claim.resource, 'acquire'),
        body: bodyOf(claim, waitMs, stayMs),
        ...(waitMs > 0 ? { blockMs: waitMs } : {}),
        signal: underWay.stop.signal,
        onAsk: (at) => {
          underWay.host = at
        },
        // The service takes nothing back of those who named an id and either do not wait or keep a place; so it never
        // takes away what another try was granted.
        mayRepeat: () => !underWay.isReleased,
        isTied: this.#isTied,
      })
      const wasHeldBack = waitMs > 0 && monotonicMs() - sentAt >= waitMs / 2
      const verdict = readVerdict(answer, claim, patience)
      if (!mustAskAgain(verdict, patience)) {
        this.#waiting.delete(claim.id)
        return verdict
      }
      const isFirst = !this.#waiting.has(claim.id)
      if (!underWay.isReleased) this.#waiting.add(claim.id)
      // Whoever is to wait asks again at once, and then waits at the service.
      return (isFirst || wasHeldBack) && this.#mayBlock(claim) ? { ...verdict, retryAfterMs: 0 } : verdict
    } finally {
      if (waitMs > 0) this.#blocking -= 1
    }
  }

  /** The first request of a claim does not wait: most are granted, and all others learn who holds and where they stand. */
  #mayBlock({ id }: Claim): boolean {
    return this.#waiting.has(id) && this.#blocking < BLOCKING_MAX
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    if (requests.length <= RENEWALS_MAX) return await this.#renew(requests)
    const parts: Promise<readonly Renewal[]>[] = []
    for (let at = 0; at < requests.length; at += RENEWALS_MAX) {
      parts.push(this.#renew(requests.slice(at, at + RENEWALS_MAX)))
    }
    return (await Promise.all(parts)).flat()
  }

  async #renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const claims = requests.map(({ claim, fence, leaseMs }) => ({
      name: claim.resource,
      claim: writeClaim(claim),
      fence: fence === null ? null : String(fenceOf(fence, 0)),
      leaseMs: Math.ceil(leaseMs),
    }))
    const answer = await this.#post('/v1/renew', { claims }, this.#isTied)
    return readRenewals(answer, requests.length)
  }

  async release(claim: Claim): Promise<Release> {
    const underWay = this.#attempts.get(claim.id)
    this.#waiting.delete(claim.id)
    if (underWay === undefined) return await this.#release(claim)
    // The instance that works on the attempt ends it, and answers it at once. It is not hung up on: a request that was on
    // its way then might still be carried out, after the release and with nobody to hear of it.
    underWay.isReleased = true
    const outcome = await this.#release(claim, underWay.host)
    return (await underWay.landed) ? await this.#release(claim, underWay.host) : outcome
  }

  async #release(claim: Claim, at?: number): Promise<Release> {
    let isRepeated = false
    const answer = await this.#client.ask({
      method: 'POST',
      path: pathOf(claim.resource, 'release'),
      body: { claim: writeClaim(claim) },
      mayRepeat: () => {
        isRepeated = true
        return true
      },
      ...(at === undefined ? {} : { at }),
    })
    const outcome = readRelease(answer)
    // A connection broke off before the answer, so the first request may be what removed the claim.
    if (outcome === 'gone' && isRepeated) throw releaseRepeated(claim.resource)
    return outcome
  }

  async inspect(resource: string): Promise<ResourceView> {
    const path = `/v1/locks/${partOf(resource)}`
    return readView(await this.#client.ask({ method: 'GET', path, mayRepeat: always }))
  }

  async *list(prefix: string): AsyncGenerator<ResourceView> {
    let after: string | null = null
    do {
      const query = [
        `limit=${PAGE_MAX}`,
        ...(prefix === '' ? [] : [`prefix=${encodeURIComponent(prefix)}`]),
        ...(after === null ? [] : [`after=${encodeURIComponent(after)}`]),
      ]
      const path = `/v1/locks?${query.join('&')}`
      const answer = await this.#client.ask({ method: 'GET', path, mayRepeat: always })
      const { views, next } = readPage(answer)
      yield* views
      if (next !== null && next === after) throw strangeAnswer('its pages lead nowhere')
      after = next
    } while (after !== null)
  }

  async evict(resource: string, ref: string): Promise<Eviction> {
    const broken = readBroken(await this.#post(pathOf(resource, 'break'), { reason: REASON, ref }))
    return broken > 0 ? 'evicted' : 'gone'
  }

  async close(): Promise<void> {
    for (const { stop } of this.#attempts.values()) stop.abort()
    this.#client.close()
  }

  get #isTied(): boolean {
    return this.guarantees.keptBy !== 'lease'
  }

  #post(path: string, body: object, isTied = false): ReturnType<ServiceClient['ask']> {
    return this.#client.ask({ method: 'POST', path, body, mayRepeat: always, isTied })
  }
}

function bodyOf(claim: Claim, waitMs: number, stayMs: number): object {
  return {
    ...modeOf(claim),
    ttlMs: claim.ttlMs,
    waitMs,
    stayMs,
    ...(claim.note === null ? {} : { note: claim.note }),
    id: claim.id,
    owner: claim.owner,
    // Who else is there is not of interest here, and would be a second question to the store.
    details: false,
  }
}

function mustAskAgain(
  verdict: Verdict,
  { waitMs }: Patience,
): verdict is Extract<Verdict, { kind: 'waiting' | 'refused' }> {
  return waitMs > 0 && (verdict.kind === 'waiting' || verdict.kind === 'refused')
}

/** A name is one part of a path, also where it would mean a folder. */
function pathOf(resource: string, what: string): string {
  return `/v1/locks/${partOf(resource)}/${what}`
}
