import { TooManyError } from './refused.js'

/** So many requests of one caller are served in one turn of the event loop. A turn costs far less than a request. */
const PER_TURN = 1
/** An answer of so many bytes counts as one more request, because making it takes as long. */
const BYTES_PER_REQUEST = 16 * 1_024
/** Requests of one caller that wait for their turn. More than this many connections no caller has. */
const QUEUE_MAX = 25_000

type Go = () => void

/** One caller: what it has used of this turn, and its requests that wait for the next ones. */
interface Line {
  used: number
  queue: Go[]
  /** Those before it were served. Taking them out one by one would move the rest each time. */
  next: number
}

/**
 * Serves callers in turn. A caller with many connections would otherwise have all of its requests served before that of
 * a caller with one. Nothing waits while the service is idle: a turn takes microseconds then.
 */
export class FairTurns {
  readonly #lines = new Map<string, Line>()
  #isPlanned = false

  /** How many requests wait for their turn. */
  get waiting(): number {
    return [...this.#lines.values()].reduce((sum, { queue, next }) => sum + queue.length - next, 0)
  }

  /** Serves a request now, or in a later turn. Throws if too many of the caller wait. */
  enter(caller: string, go: Go): void {
    const line = this.#lineOf(caller)
    const waiting = line.queue.length - line.next
    if (waiting === 0 && line.used < PER_TURN) {
      line.used += 1
      go()
      return
    }
    if (waiting >= QUEUE_MAX) throw new TooManyError('Too many requests wait already.', 5)
    line.queue.push(go)
  }

  /** An answer was made: a large one takes the place of later requests. */
  charge(caller: string, bytes: number): void {
    if (bytes >= BYTES_PER_REQUEST) this.#lineOf(caller).used += bytes / BYTES_PER_REQUEST
  }

  #lineOf(caller: string): Line {
    let line = this.#lines.get(caller)
    if (line === undefined) {
      line = { used: 0, queue: [], next: 0 }
      this.#lines.set(caller, line)
    }
    this.#plan()
    return line
  }

  #plan(): void {
    if (this.#isPlanned) return
    this.#isPlanned = true
    setImmediate(() => {
      this.#isPlanned = false
      this.#turn()
    })
  }

  #turn(): void {
    for (const [caller, line] of this.#lines) {
      line.used = Math.max(0, line.used - PER_TURN)
      this.#serve(line)
      if (line.used === 0 && line.next === line.queue.length) this.#lines.delete(caller)
    }
    if (this.#lines.size > 0) this.#plan()
  }

  #serve(line: Line): void {
    while (line.used < PER_TURN && line.next < line.queue.length) {
      const go = line.queue[line.next] as Go
      line.next += 1
      line.used += 1
      go()
    }
    if (line.next === line.queue.length || line.next > QUEUE_MAX / 2) {
      line.queue = line.queue.slice(line.next)
      line.next = 0
    }
  }
}
