import { TooManyError } from './refused.js'

/** How many requests of one caller are served in one turn of the event loop. */
const PER_TURN = 1
/** An answer of this many bytes counts as one more request, because the service needs as long to make it. */
export const BYTES_PER_REQUEST = 16 * 1_024
/** How many requests of one caller may wait for their turn. */
const QUEUE_MAX = 25_000
/** A caller is present for at least this long after its last request, and for at most twice as long. */
const PRESENT_MS = 1_000

type Go = () => void

/** What one caller has used of this turn, and its requests that wait for later turns. */
interface CallerQueue {
  used: number
  requests: Go[]
  /** The first request that was not served. Removing served requests one by one would move the rest each time. */
  next: number
}

/**
 * Serves callers in turn, so that a caller with one connection does not wait for all requests of a caller with many. While
 * only one caller is present, its requests do not wait for each other.
 */
export class FairTurns {
  readonly #queues = new Map<string, CallerQueue>()
  readonly #nowMs: () => number
  #present = new Set<string>()
  #presentBefore = new Set<string>()
  #presentSince = 0
  #isPlanned = false

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
  }

  /** Serves a request now, or in a later turn. Throws if too many requests of the caller wait. */
  enter(caller: string, go: Go): void {
    if (this.#isAlone(caller)) {
      go()
      return
    }
    const queue = this.#queueOf(caller)
    const waiting = queue.requests.length - queue.next
    if (waiting === 0 && queue.used < PER_TURN) {
      queue.used += 1
      go()
      return
    }
    if (waiting >= QUEUE_MAX) throw new TooManyError('Too many requests wait already.', 5)
    queue.requests.push(go)
  }

  /** Counts a large answer as further requests of its caller. */
  charge(caller: string, bytes: number): void {
    if (bytes < BYTES_PER_REQUEST || this.#isAlone(caller)) return
    this.#queueOf(caller).used += bytes / BYTES_PER_REQUEST
  }

  #isAlone(caller: string): boolean {
    const now = this.#nowMs()
    const elapsedMs = now - this.#presentSince
    if (elapsedMs >= PRESENT_MS) {
      this.#presentBefore = elapsedMs < 2 * PRESENT_MS ? this.#present : new Set()
      this.#present = new Set()
      this.#presentSince = now
    }
    this.#present.add(caller)
    const { size } = this.#presentBefore
    return this.#present.size === 1 && (size === 0 || (size === 1 && this.#presentBefore.has(caller)))
  }

  #queueOf(caller: string): CallerQueue {
    let queue = this.#queues.get(caller)
    if (queue === undefined) {
      queue = { used: 0, requests: [], next: 0 }
      this.#queues.set(caller, queue)
    }
    this.#plan()
    return queue
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
    for (const [caller, queue] of this.#queues) {
      queue.used = Math.max(0, queue.used - PER_TURN)
      serve(queue)
      if (queue.used === 0 && queue.next === queue.requests.length) this.#queues.delete(caller)
    }
    if (this.#queues.size > 0) this.#plan()
  }
}

function serve(queue: CallerQueue): void {
  while (queue.used < PER_TURN) {
    const go = queue.requests[queue.next]
    if (go === undefined) break
    queue.next += 1
    queue.used += 1
    go()
  }
  if (queue.next === queue.requests.length || queue.next > QUEUE_MAX / 2) {
    queue.requests = queue.requests.slice(queue.next)
    queue.next = 0
  }
}
