import type { Timer } from '../core/runtime.js'

/** What the real timers must do; Node's `Timeout` is one. */
export interface RawTimer {
  ref(): unknown
  unref(): unknown
}

export type StartRaw = (run: () => void, afterMs: number) => RawTimer

interface Entry {
  readonly run: () => void
  readonly dueAt: number
  readonly keepAlive: boolean
}

/**
 * Timers of one length that share a real one. A request has a deadline that it almost never meets, so a timer of its own
 * would be made and thrown away for nothing. Here it joins a queue and leaves it again; the real timer stays armed, at no
 * cost, until it fires for whoever is then first, or for nobody. They fall due in the order in which they came, because
 * all of them take equally long.
 */
export class SharedTimers {
  readonly #afterMs: number
  readonly #nowMs: () => number
  readonly #start: StartRaw
  readonly #onIdle: () => void
  readonly #entries = new Set<Entry>()
  #keepingAlive = 0
  #raw: RawTimer

  constructor(afterMs: number, nowMs: () => number, start: StartRaw, onIdle: () => void) {
    this.#afterMs = afterMs
    this.#nowMs = nowMs
    this.#start = start
    this.#onIdle = onIdle
    this.#raw = this.#arm(afterMs)
  }

  start(run: () => void, keepAlive: boolean): Timer {
    const entry = { run, dueAt: this.#nowMs() + this.#afterMs, keepAlive }
    this.#entries.add(entry)
    if (keepAlive) {
      this.#keepingAlive += 1
      if (this.#keepingAlive === 1) this.#raw.ref()
    }
    return { cancel: () => this.#drop(entry) }
  }

  #drop(entry: Entry): void {
    if (!this.#entries.delete(entry) || !entry.keepAlive) return
    this.#keepingAlive -= 1
    if (this.#keepingAlive === 0) this.#raw.unref()
  }

  /** Armed for upkeep only; whoever must not be missed refs it. */
  #arm(afterMs: number): RawTimer {
    const raw = this.#start(() => this.#fire(), Math.max(1, Math.ceil(afterMs)))
    if (this.#keepingAlive === 0) raw.unref()
    return raw
  }

  #fire(): void {
    const now = this.#nowMs()
    const due: Entry[] = []
    let next: Entry | null = null
    for (const entry of this.#entries) {
      if (entry.dueAt > now) {
        next = entry
        break
      }
      due.push(entry)
    }
    for (const entry of due) this.#drop(entry)
    if (next === null) this.#onIdle()
    else this.#raw = this.#arm(next.dueAt - now)
    for (const entry of due) entry.run()
  }
}
