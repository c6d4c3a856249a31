import { BackendUnavailableError } from 'holdfast'
import type { Backend, Claim, Guarantees, Patience, Renewal, RenewRequest, Sink } from 'holdfast/backend'
import { MemoryStore, memoryBackend } from 'holdfast/memory'
import type { SeededRandom, VirtualTime } from 'holdfast/testing'
import type { SimProcess } from './process.js'

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

/** The store of the world, and the way to it. The lines and the rule are the library's own memory store. */
export class SimStore {
  readonly store: MemoryStore
  weather: Weather = CALM
  #down = false
  #epoch = 0
  #onTheWay = 0
  readonly #time: VirtualTime
  readonly #random: SeededRandom
  readonly #pushes: boolean
  readonly #trace: Trace

  constructor(time: VirtualTime, random: SeededRandom, pushes: boolean, trace: Trace) {
    this.#trace = trace
    this.#time = time
    this.#random = random
    this.#pushes = pushes
    this.store = new MemoryStore({ nowMs: () => this.storeNow() })
  }

  /** The store's own clock judges expiry. The process that asks is known only so that a planted fault can use its clock. */
  storeNow(_asking: SimProcess | null = this.asking): number {
    return this.#time.nowMs
  }

  asking: SimProcess | null = null

  /** The store goes away and comes back with its data; whatever was on the way is lost. */
  restart(downMs: number): void {
    this.#down = true
    this.#epoch += 1
    this.#time.schedule(this.#time.nowMs + downMs, () => {
      this.#down = false
    })
  }

  heal(): void {
    this.weather = CALM
    this.#down = false
  }

  /** How many messages are under way. */
  get onTheWay(): number {
    return this.#onTheWay
  }

  backendFor(process: SimProcess): Backend {
    const base = memoryBackend(this.store)
    const guarantees: Guarantees = {
      ...base.guarantees,
      waiting: this.#pushes ? 'push' : 'poll',
      ttlMinMs: 20,
    }
    let sink: Sink | null = null
    const push = (): Sink => ({
      granted: (id, fence) => this.#push(process, () => sink?.granted(id, fence)),
      wanted: (id) => this.#push(process, () => sink?.wanted(id)),
      hint: (resource) => this.#push(process, () => sink?.hint(resource)),
      lost: (id, reason) => this.#push(process, () => sink?.lost(id, reason)),
    })
    const pushed = push()
    return {
      name: 'sim',
      guarantees,
      open: async (given) => {
        sink = given
        await base.open(given)
      },
      attempt: (claim: Claim, patience: Patience) =>
        this.#request(process, `attempt ${nameOf(claim)}`, () => this.store.attempt(claim, patience, pushed)),
      renew: (requests: readonly RenewRequest[]) =>
        this.#request(process, `renew ${requests.map(({ claim }) => nameOf(claim)).join(', ')}`, () =>
          requests.map((request) => this.#renewOne(request)),
        ),
      release: (claim: Claim) =>
        this.#request(process, `release ${nameOf(claim)}`, () => this.store.release(claim)),
      inspect: (resource) =>
        this.#request(process, `inspect ${resource}`, () => this.store.inspect(resource)),
      list: (prefix) => base.list(prefix),
      evict: (resource, ref) =>
        this.#request(process, `evict ${resource}`, () => this.store.evict(resource, ref)),
      close: async () => undefined,
    }
  }

  /** A store of several parts may answer for some claims and not for others, whether or not it renewed those. */
  #renewOne(request: RenewRequest): Renewal {
    const { lostRequest, lostReply } = this.weather
    if (this.#random.chance(lostRequest)) return 'unknown'
    const renewal = this.store.renew(request)
    return this.#random.chance(lostReply) ? 'unknown' : renewal
  }

  #request<T>(process: SimProcess, what: string, run: () => T): Promise<T> {
    const { weather } = this
    const random = this.#random
    return new Promise<T>((resolve, reject) => {
      const execute = (reply: (value: T) => void): void => {
        this.asking = process
        const value = run()
        this.asking = null
        this.#trace(() => `store: ${what} by ${process.name} -> ${show(value)}`)
        reply(value)
      }
      const epoch = this.#epoch
      const arrive = (reply: (value: T) => void): void => {
        if (epoch === this.#epoch && !this.#down) execute(reply)
        else
          this.#later(() => process.deliver(() => reject(new BackendUnavailableError('The store is down.'))))
      }
      if (this.#down || random.chance(weather.lostRequest)) {
        // Half of the lost requests are noticed and half are met with silence for ever.
        if (this.#down || random.chance(0.5)) {
          this.#later(() => process.deliver(() => reject(new BackendUnavailableError('Connection refused.'))))
        }
        return
      }
      // A duplicate that lands after the storm could leave an entry that only its lease removes, which is no news.
      if (random.chance(weather.duplicate))
        this.#later(() => this.weather !== CALM && arrive(() => undefined))
      this.#later(() =>
        arrive((value) => {
          if (random.chance(this.weather.lostReply)) return
          this.#later(() => {
            if (epoch !== this.#epoch) return
            process.deliver(() => {
              this.#trace(() => `${process.name}: answer to ${what}`)
              resolve(value)
            })
          })
        }),
      )
    })
  }

  #push(process: SimProcess, run: () => void): void {
    if (!this.#pushes || this.#random.chance(this.weather.lostPush)) return
    this.#later(() => process.deliver(run))
  }

  #later(run: () => void): void {
    const { delayMs, slow, slowMs } = this.weather
    const random = this.#random
    const delay = random.chance(slow) ? random.between(0, slowMs) : random.between(0.05, delayMs)
    this.#onTheWay += 1
    this.#time.schedule(this.#time.nowMs + delay, () => {
      this.#onTheWay -= 1
      run()
    })
  }
}
