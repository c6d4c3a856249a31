import { type Ask, bodyOf, lockPath } from '../model/curl.js'
import { type Api, troubleOf } from './api.js'
import { numberOf, textOf } from './json.js'

/** Something that the playground holds, waits for, or has held. */
export interface Held {
  readonly id: number
  readonly ask: Ask
  readonly renews: boolean
  readonly state: 'waiting' | 'held' | 'released' | 'refused' | 'lost' | 'failed'
  readonly fence: string | null
  /** Of the page's steady clock: until then it surely holds. */
  readonly validUntil: number
  readonly ttlMs: number
  readonly renewals: number
  /** Why it was refused, lost or failed. */
  readonly why: string | null
}

interface Slot {
  held: Held
  /** The only key to the hold. It is in no text of the page and in no storage. */
  claim: string | null
  timer: number
  readonly controller: AbortController
}

const KEPT_MAX = 20
const CLIENT_DIGITS = 4

/** What this page has acquired. A hold lives as long as the page: closing it gives back what it has. */
export class Holds {
  onChange: (() => void) | null = null
  readonly #api: Api
  readonly #owner = { host: 'dashboard', pid: 0, client: `tab-${randomHex(CLIENT_DIGITS)}` }
  #slots: Slot[] = []
  #count = 0

  constructor(api: Api) {
    this.#api = api
    addEventListener('pagehide', () => this.#leave())
  }

  /** Newest first. */
  all(): Held[] {
    return this.#slots.map(({ held }) => held)
  }

  async acquire(ask: Ask, renews: boolean): Promise<void> {
    const held: Held = {
      id: ++this.#count,
      ask,
      renews,
      state: 'waiting',
      fence: null,
      validUntil: 0,
      ttlMs: ask.ttlMs,
      renewals: 0,
      why: null,
    }
    const slot: Slot = { held, claim: null, timer: 0, controller: new AbortController() }
    this.#slots = [slot, ...this.#slots].filter((one, index) => index < KEPT_MAX || isOpen(one.held))
    this.#change(slot, {})
    const sentAt = performance.now()
    try {
      const body = { ...bodyOf(ask), owner: this.#owner }
      const { signal } = slot.controller
      const answer = await this.#api.post(lockPath(ask.name, 'acquire'), body, { signal })
      const claim = textOf(answer.body['claim'])
      if (answer.status !== 200 || claim === null) {
        return this.#change(slot, {
          state: answer.status === 423 ? 'refused' : 'failed',
          why: troubleOf(answer),
        })
      }
      slot.claim = claim
      const remainingMs = numberOf(answer.body['remainingMs']) ?? 0
      // The wait is part of the request, so only what the service says is left counts, and from when it was answered: the
      // answer's way back is the only part of it that is not known, and a hold of a playground protects nothing.
      const from = ask.waitMs > 0 ? performance.now() : sentAt
      this.#change(slot, {
        state: 'held',
        fence: textOf(answer.body['fence']),
        validUntil: from + remainingMs,
        ttlMs: numberOf(answer.body['ttlMs']) ?? ask.ttlMs,
      })
      this.#plan(slot)
    } catch (error) {
      if (!(error instanceof Error)) throw error
      const cancelled = slot.controller.signal.aborted
      this.#change(
        slot,
        cancelled ? { state: 'released', why: 'You stopped waiting.' } : { state: 'failed', why: UNREACHED },
      )
    }
  }

  async release(id: number): Promise<void> {
    const slot = this.#slots.find((one) => one.held.id === id)
    if (slot === undefined) return
    if (slot.claim === null) return slot.controller.abort()
    clearTimeout(slot.timer)
    try {
      const answer = await this.#api.post(this.#path(slot, 'release'), { claim: slot.claim })
      if (answer.status !== 200) return this.#change(slot, { why: troubleOf(answer) })
      const gone = answer.body['outcome'] === 'gone'
      this.#end(slot, gone ? 'lost' : 'released', gone ? 'It was gone before it was released.' : null)
    } catch (error) {
      if (!(error instanceof Error)) throw error
      this.#change(slot, { why: UNREACHED })
      this.#plan(slot)
    }
  }

  /** Looks once a second whether anything ran out. */
  tick(now: number): void {
    for (const slot of this.#slots) {
      if (slot.held.state === 'held' && now >= slot.held.validUntil)
        this.#end(slot, 'lost', 'Its lease ran out.')
    }
  }

  forget(id: number): void {
    this.#slots = this.#slots.filter((slot) => slot.held.id !== id || isOpen(slot.held))
    this.onChange?.()
  }

  #plan(slot: Slot): void {
    clearTimeout(slot.timer)
    if (!slot.held.renews || slot.held.state !== 'held') return
    const left = slot.held.validUntil - performance.now()
    const after = Math.max(250, Math.min(slot.held.ttlMs / 3, left / 2))
    slot.timer = window.setTimeout(() => void this.#renew(slot), after)
  }

  async #renew(slot: Slot): Promise<void> {
    const sentAt = performance.now()
    try {
      const answer = await this.#api.post(this.#path(slot, 'renew'), { claim: slot.claim })
      if (slot.held.state !== 'held') return
      if (answer.status === 410) return this.#end(slot, 'lost', 'It expired or somebody broke it.')
      const remainingMs = numberOf(answer.body['remainingMs'])
      if (answer.status === 200 && remainingMs !== null) {
        const { renewals } = slot.held
        this.#change(slot, { validUntil: sentAt + remainingMs, renewals: renewals + 1, why: null })
      } else {
        this.#change(slot, { why: troubleOf(answer) })
      }
    } catch (error) {
      if (!(error instanceof Error)) throw error
      this.#change(slot, { why: UNREACHED })
    }
    this.#plan(slot)
  }

  #path(slot: Slot, verb: string): string {
    return lockPath(slot.held.ask.name, verb)
  }

  #end(slot: Slot, state: 'released' | 'lost', why: string | null): void {
    clearTimeout(slot.timer)
    slot.claim = null
    this.#change(slot, { state, why })
  }

  #change(slot: Slot, difference: Partial<Held>): void {
    slot.held = { ...slot.held, ...difference }
    this.onChange?.()
  }

  #leave(): void {
    for (const slot of this.#slots) {
      if (slot.held.state === 'waiting') slot.controller.abort()
      if (slot.claim === null) continue
      const path = this.#path(slot, 'release')
      // Nobody is there any more to hear of a failure; the lease ends what this does not.
      this.#api.post(path, { claim: slot.claim }, { keepalive: true }).catch(() => undefined)
      this.#end(slot, 'released', 'The page was left.')
    }
  }
}

const UNREACHED = 'The service cannot be reached.'

export function isOpen(held: Held): boolean {
  return held.state === 'waiting' || held.state === 'held'
}

function randomHex(digits: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(digits / 2))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
