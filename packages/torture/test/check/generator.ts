import type {
  EventName,
  EventType,
  EventValue,
  HistoryLine,
  Promises,
  ResourceNote,
} from '../../src/history/format.js'
import { Sketch } from './sketch.js'

/** Random numbers that a seed decides (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let bits = Math.imul(state ^ (state >>> 15), state | 1)
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61)
    return ((bits ^ (bits >>> 14)) >>> 0) / 4_294_967_296
  }
}

interface Held {
  readonly p: string
  depth: number
  readonly until: number
  readonly weight: number
  readonly shared: boolean
  readonly fence: number
}

type Step = (t: number) => void

/**
 * A history of callers around a simulated lock. Each call has its effect at some moment between being made and coming
 * back, or is lost on the way; now and then the lock grants what it must not, gives a fence from the past, or lets
 * somebody release what it does not hold. Whether that can be seen from outside is for the checkers to find out.
 */
export function lockHistory(random: () => number, note: ResourceNote, promises: Promises): HistoryLine[] {
  return new Generator(random, note, promises).run()
}

class Generator {
  readonly #random: () => number
  readonly #note: ResourceNote
  readonly #promises: Promises
  readonly #sketch: Sketch
  readonly #held = new Map<string, Held>()
  readonly #agenda: { t: number; order: number; step: Step }[] = []
  readonly #faulty: number
  readonly #leases: boolean
  readonly #calls: number
  readonly #dead = new Set<string>()
  #made = 0
  #fence = 0
  #names = 0
  #order = 0

  constructor(random: () => number, note: ResourceNote, promises: Promises) {
    this.#random = random
    this.#note = note
    this.#promises = promises
    this.#sketch = new Sketch({ resources: { r: note }, promises })
    // Half of the locks are sound; the others are unsound in few of their answers, or in many.
    this.#faulty = random() < 0.4 ? 0 : 0.1 + random() * 0.4
    // Whether an inner acquisition belongs to a hold that runs out meanwhile is told from its fence by the sweep alone.
    this.#leases = random() < 0.5 && !(note.reentrant === true && promises.fences === true)
    this.#calls = 4 + Math.floor(random() * 30)
  }

  run(): HistoryLine[] {
    const callers = 2 + Math.floor(this.#random() * 4)
    for (let caller = 0; caller < callers; caller++) this.#live(`w${caller}.0`, this.#ticks(10))
    for (;;) {
      this.#agenda.sort((a, b) => a.t - b.t || a.order - b.order)
      const next = this.#agenda.shift()
      if (next === undefined) break
      next.step(next.t)
    }
    return this.#sketch.lines
  }

  /** Few ticks, so that moments often fall together. */
  #ticks(most: number): number {
    return Math.floor(this.#random() * most)
  }

  #at(t: number, step: Step): void {
    this.#agenda.push({ t, order: this.#order++, step })
  }

  #live(p: string, soonest: number): void {
    // At one moment the search takes all calls to come before all answers, also those of one caller, which is a little
    // too lenient with one that acquires and releases again within it.
    const t = this.#note.reentrant === true ? soonest + 1 : soonest
    this.#at(t, (now) => {
      if (this.#dead.has(p) || this.#made++ >= this.#calls) return
      const held = this.#held.get(p)
      const again = this.#note.reentrant === true && this.#random() < 0.3
      if (held === undefined ? this.#random() < 0.93 : again) this.#acquire(p, now)
      else this.#release(p, now)
    })
  }

  #acquire(p: string, now: number): void {
    const input = this.#wish()
    this.#say(now, p, 'acquire', 'invoke', input)
    this.#at(now + this.#ticks(5), (effect) => {
      const held = this.#held.get(p)
      const fits = this.#fits(p, input) || this.#random() < this.#faulty
      if (this.#random() < 0.06) this.#outcomeUnknown(p, 'acquire', effect)
      else if (!fits) {
        this.#at(effect + this.#ticks(5), (t) => {
          this.#say(t, p, 'acquire', 'fail', { error: 'ACQUIRE_TIMEOUT' })
          this.#live(p, t + this.#ticks(8))
        })
      } else {
        const fence = held?.fence ?? this.#nextFence()
        const weight = input.weight ?? 1
        const until = held?.until ?? effect + 4 + this.#ticks(20)
        if (held === undefined) {
          this.#held.set(p, { p, depth: 1, until, weight, shared: input.mode === 'shared', fence })
          if (this.#leases) this.#runOut(p, until)
        } else held.depth++
        const known = this.#promises.fences === true && this.#random() < 0.9
        this.#at(effect + this.#ticks(5), (t) => {
          this.#say(t, p, 'acquire', 'ok', {
            ...(known ? { fence: String(fence) } : {}),
            ...(this.#leases ? { until } : {}),
          })
          this.#live(p, t + this.#ticks(12))
        })
      }
    })
  }

  #release(p: string, now: number): void {
    this.#say(now, p, 'release', 'invoke')
    this.#at(now + this.#ticks(5), (effect) => {
      if (this.#random() < 0.06) {
        if (this.#random() < 0.5) this.#giveBack(p)
        this.#outcomeUnknown(p, 'release', effect)
        return
      }
      const worked = this.#giveBack(p) || this.#random() < this.#faulty
      this.#at(effect + this.#ticks(5), (t) => {
        this.#say(t, p, 'release', worked ? 'ok' : 'fail', worked ? undefined : { error: 'NOT_HELD' })
        this.#live(p, t + this.#ticks(8))
      })
    })
  }

  /** Either the answer says so, or none ever comes. Its caller is another from then on, as nobody knows what it holds. */
  #outcomeUnknown(p: string, f: 'acquire' | 'release', effect: number): void {
    this.#held.delete(p)
    this.#at(effect + this.#ticks(5), (t) => {
      if (this.#random() < 0.5) this.#say(t, p, f, 'info', { error: 'timeout' })
      this.#live(this.#another(p), t + this.#ticks(8))
    })
  }

  /** The lock ends a lease when it is over, or before; its holder may be told, die, or be told nothing. */
  #runOut(p: string, until: number): void {
    const held = this.#held.get(p)
    const early = this.#random() < this.#faulty ? this.#ticks(8) : 0
    this.#at(until - early, () => {
      if (this.#held.get(p) === held) this.#held.delete(p)
    })
    const kind = this.#random()
    if (kind > 0.5) return
    const notice = until - this.#ticks(6)
    this.#at(notice, (t) => {
      if (this.#held.get(p) !== held) return
      if (kind >= 0.35) {
        this.#die(p, t)
        return
      }
      this.#say(t, p, 'lost', 'note', { error: 'expired' })
      // Who was told that it is over does not go on with the same hold.
      if (this.#note.reentrant === true) this.#held.delete(p)
    })
  }

  #another(p: string): string {
    return `${p.split('#')[0]}#${++this.#names}`
  }

  #die(p: string, t: number): void {
    this.#sketch.at(t, p, 'death', 'note', undefined, '')
    this.#dead.add(p)
    this.#live(this.#another(p), t + this.#ticks(8))
  }

  #say(t: number, p: string, f: EventName, type: EventType, v?: EventValue): void {
    if (!this.#dead.has(p)) this.#sketch.at(t, p, f, type, v)
  }

  #giveBack(p: string): boolean {
    const held = this.#held.get(p)
    if (held === undefined) return false
    held.depth--
    if (held.depth === 0) this.#held.delete(p)
    return true
  }

  #wish(): EventValue {
    if (this.#note.kind === 'semaphore') return { weight: 1 + this.#ticks(2) }
    if (this.#note.kind === 'read-write') return { mode: this.#random() < 0.6 ? 'shared' : 'exclusive' }
    return {}
  }

  #fits(p: string, { weight = 1, mode }: EventValue): boolean {
    const others = [...this.#held.values()].filter((held) => held.p !== p)
    if (this.#note.kind === 'semaphore') {
      return others.reduce((sum, held) => sum + held.weight, weight) <= (this.#note.limit ?? 1)
    }
    if (this.#note.kind === 'read-write' && mode === 'shared') return others.every((held) => held.shared)
    return others.length === 0
  }

  #nextFence(): number {
    const stale = this.#random() < this.#faulty
    return stale ? Math.max(1, this.#fence - this.#ticks(2)) : ++this.#fence
  }
}
