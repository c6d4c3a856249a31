import { BackendUnavailableError, type LockLostReason } from 'holdfast'
import type { Backend, Claim, Renewal, RenewRequest, Sink, Verdict } from 'holdfast/backend'
import type { SeededRandom, VirtualTime } from 'holdfast/testing'
import { PersistentRelease } from './persistent-release.js'
import type { SimProcess } from './process.js'
import type { SimStore, StoreClient } from './stores/store.js'
import { Violation } from './violation.js'

/** Says what happens, for whoever replays a seed. The text is made only if somebody listens. */
export type Trace = (text: () => string) => void

function nameOf({ resource, id }: Claim): string {
  return `${resource}#${id.slice(0, 6)}`
}

function show(value: unknown): string {
  return JSON.stringify(value, (key, inner: unknown) => {
    if (key === 'holder' || key === 'owner') return undefined
    return typeof inner === 'bigint' ? inner.toString() : inner
  })
}

/** How badly the network of one world behaves. All are probabilities per message, except the times. */
export interface Weather {
  readonly delayMs: number
  readonly slow: number
  readonly slowMs: number
  readonly lostRequest: number
  readonly lostReply: number
  readonly duplicate: number
  readonly lostPush: number
}

/** Nothing goes wrong, and nothing takes long. */
export const CALM: Weather = {
  delayMs: 1,
  slow: 0,
  slowMs: 0,
  lostRequest: 0,
  lostReply: 0,
  duplicate: 0,
  lostPush: 0,
}

/** How soon the end of a connection is sent again. */
const RECONNECT_MS = 250

/** What the checks see of the messages. */
export interface NetworkWatch {
  renewalSent(process: SimProcess, requests: readonly RenewRequest[]): void
  /** The answer reaches the process; null: an error does. */
  renewalAnswered(
    process: SimProcess,
    requests: readonly RenewRequest[],
    states: readonly Renewal[] | null,
  ): void
  /** A pushed loss reaches the process. */
  lossPushed(process: SimProcess, claimId: string): void
  /** A message was lost or refused, or is slow and arrives at `untilMs`. */
  trouble(untilMs?: number): void
}

/** The way from the processes to the store: delays, losses, duplicates, outages and partitions. */
export class Network {
  weather: Weather = CALM
  #down = false
  #epoch = 0
  #onTheWay = 0
  readonly #time: VirtualTime
  readonly #random: SeededRandom
  readonly #store: SimStore
  readonly #watch: NetworkWatch
  readonly #trace: Trace
  /** Which processes cannot reach the store, and until when. */
  readonly #parted = new Map<SimProcess, number>()
  /** When the last message of an ordered connection arrives, for each direction. */
  readonly #lastArrival = new Map<string, number>()

  constructor(time: VirtualTime, random: SeededRandom, store: SimStore, watch: NetworkWatch, trace: Trace) {
    this.#time = time
    this.#random = random
    this.#store = store
    this.#watch = watch
    this.#trace = trace
  }

  /** The store goes away and comes back with its data; messages that are on the way are lost. */
  restart(downMs: number): void {
    this.#down = true
    this.#epoch += 1
    const epoch = this.#epoch
    this.#time.schedule(this.#time.nowMs + downMs, () => {
      if (epoch === this.#epoch) this.#down = false
    })
  }

  /** One process cannot reach the store, while the others can. */
  part(process: SimProcess, forMs: number): void {
    this.#parted.set(process, Math.max(this.#parted.get(process) ?? 0, this.#time.nowMs + forMs))
  }

  heal(): void {
    this.weather = CALM
    this.#down = false
    this.#parted.clear()
  }

  /** How many messages are under way. */
  get onTheWay(): number {
    return this.#onTheWay
  }

  backendFor(process: SimProcess): Backend {
    let sink: Sink | null = null
    const store = this.#store
    const client: StoreClient = { process, sink: this.#pushTo(process, () => sink) }
    const release = (claim: Claim): ReturnType<Backend['release']> =>
      this.#request(process, `release ${nameOf(claim)}`, (reply) => reply(store.release(client, claim)))
    // Where no lease ends a claim, the driver must not give up before the store has confirmed the release.
    const persistent =
      store.guarantees.keptBy === 'lease' ? null : new PersistentRelease(process.runtime.timers, release)
    return {
      name: 'sim',
      guarantees: store.guarantees,
      open: async (given) => {
        sink = given
      },
      attempt: (claim, patience) =>
        this.#request<Verdict>(process, `attempt ${nameOf(claim)}`, (reply) =>
          store.attempt(client, claim, patience, reply),
        ),
      renew: (requests) => this.#renew(client, requests),
      release: persistent === null ? release : (claim) => persistent.release(claim),
      inspect: (resource) =>
        this.#request(process, `inspect ${resource}`, (reply) => reply(store.inspect(resource))),
      list: async function* (prefix) {
        const names = new Set(store.entries().map(({ resource }) => resource))
        for (const name of names) if (name.startsWith(prefix)) yield store.inspect(name)
      },
      evict: (resource, ref) =>
        this.#request(process, `evict ${resource}`, (reply) => reply(store.evict(resource, ref))),
      close: async () => {
        persistent?.stop()
        this.#closed(client)
      },
    }
  }

  /** The end of a connection reaches the store behind all messages, as soon as the network lets it. */
  #closed(client: StoreClient): void {
    const { process } = client
    if (this.#store.closed === undefined) return
    this.#later(process, 'there', () => {
      if (!process.alive) return
      if (this.#down || this.#isParted(process))
        this.#time.schedule(this.#time.nowMs + RECONNECT_MS, () => this.#closed(client))
      else this.#store.closed?.(client)
    })
  }

  async #renew(client: StoreClient, requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const { process } = client
    const what = `renew ${requests.map(({ claim }) => nameOf(claim)).join(', ')}`
    this.#watch.renewalSent(process, requests)
    try {
      const states = await this.#request<readonly Renewal[]>(process, what, (reply) =>
        reply(requests.map((request) => this.#renewOne(client, request))),
      )
      this.#watch.renewalAnswered(process, requests, states)
      return states
    } catch (error) {
      this.#watch.renewalAnswered(process, requests, null)
      throw error
    }
  }

  /** A store of several parts may answer for some claims and not for others, whether or not it renewed those. */
  #renewOne(client: StoreClient, request: RenewRequest): Renewal {
    const { lostRequest, lostReply } = this.weather
    if (this.#random.chance(lostRequest)) return 'unknown'
    const renewal = this.#store.renew(client, request)
    if (renewal !== 'lost') this.#checkPlace(request)
    return this.#random.chance(lostReply) ? 'unknown' : renewal
  }

  /** A renewal names the entry that it means, and an entry that took its place later is not renewed by it. */
  #checkPlace({ claim: { resource }, fence }: RenewRequest): void {
    if (fence === null) return
    const { holders, waiters } = this.#store.inspect(resource)
    if (holders.some((view) => view.fence === fence) || waiters.some((view) => view.fence === fence)) return
    throw new Violation('renewed-another', `the entry ${fence} of ${resource} was renewed, and is not there`)
  }

  #isParted(process: SimProcess): boolean {
    const until = this.#parted.get(process)
    return until !== undefined && this.#time.nowMs < until
  }

  #request<T>(process: SimProcess, what: string, run: (reply: (value: T) => void) => void): Promise<T> {
    const { weather } = this
    const random = this.#random
    return new Promise<T>((resolve, reject) => {
      const refuse = (why: string): void => {
        this.#watch.trouble()
        this.#later(process, 'back', () => process.deliver(() => reject(new BackendUnavailableError(why))))
      }
      const isLost = this.#isParted(process) || random.chance(weather.lostRequest)
      this.#trace(() => `${process.name}: sends ${what}${this.#down || isLost ? ', which is lost' : ''}`)
      if (this.#down || isLost) {
        this.#watch.trouble()
        // Half of the lost requests are noticed and half are met with silence for ever.
        if (this.#down || random.chance(0.5)) refuse('Connection refused.')
        return
      }
      const epoch = this.#epoch
      const answer = (value: T): void => {
        this.#trace(() => `store: ${what} by ${process.name} -> ${show(value)}`)
        if (random.chance(this.weather.lostReply) || this.#isParted(process)) return this.#watch.trouble()
        this.#later(process, 'back', () => {
          if (epoch !== this.#epoch || this.#isParted(process)) return this.#watch.trouble()
          process.deliver(() => {
            this.#trace(() => `${process.name}: answer to ${what}`)
            resolve(value)
          })
        })
      }
      const arrive = (reply: (value: T) => void): void => {
        if (epoch === this.#epoch && !this.#down) run(reply)
        else refuse('The store is down.')
      }
      // A duplicate that lands after the storm could leave an entry that only its lease removes, which is no news.
      if (!this.#store.isOrdered && random.chance(weather.duplicate))
        this.#later(process, 'there', () => this.weather !== CALM && arrive(() => undefined))
      this.#later(process, 'there', () => arrive(answer))
    })
  }

  #pushTo(process: SimProcess, sink: () => Sink | null): Sink {
    return {
      granted: (id, fence) => this.#push(process, () => sink()?.granted(id, fence)),
      wanted: (id) => this.#push(process, () => sink()?.wanted(id)),
      hint: (resource) => this.#push(process, () => sink()?.hint(resource)),
      lost: (id: string, reason: LockLostReason) =>
        this.#push(process, () => {
          this.#watch.lossPushed(process, id)
          sink()?.lost(id, reason)
        }),
    }
  }

  #push(process: SimProcess, run: () => void): void {
    if (this.#store.guarantees.waiting !== 'push') return
    if (this.#random.chance(this.weather.lostPush) || this.#isParted(process)) return this.#watch.trouble()
    this.#later(process, 'back', () => {
      if (this.#isParted(process)) this.#watch.trouble()
      else process.deliver(run)
    })
  }

  #later(process: SimProcess, way: 'there' | 'back', run: () => void): void {
    const { delayMs, slow, slowMs } = this.weather
    const random = this.#random
    const isSlow = random.chance(slow)
    const delay = isSlow ? random.between(0, slowMs) : random.between(0.05, delayMs)
    let at = this.#time.nowMs + delay
    if (this.#store.isOrdered) {
      const key = `${process.name} ${way}`
      at = Math.max(at, this.#lastArrival.get(key) ?? 0)
      this.#lastArrival.set(key, at)
    }
    // On an ordered connection, a slow message also delays those behind it.
    if (isSlow || at > this.#time.nowMs + delayMs) this.#watch.trouble(at)
    this.#onTheWay += 1
    this.#time.schedule(at, () => {
      this.#onTheWay -= 1
      run()
    })
  }
}
