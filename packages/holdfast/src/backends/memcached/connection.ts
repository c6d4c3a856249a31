/**
 * One connection to a memcached server. Requests go out at once, and answers come in the same order: nothing else says
 * which is whose. So when one is missing for too long, or makes no sense, the whole connection is given up.
 */

import type { Socket } from 'node:net'
import { nextTick } from 'node:process'
import { every, monotonicMs } from '../shared/clock.js'
import { tooLate, unanswered } from './errors.js'
import { type Answer, type Expect, ReplyReader, WireError } from './wire.js'

interface Pending {
  readonly expect: Expect
  readonly dueAt: number
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: Error) => void
}

const LOOK_MS = 100
/** So many answered requests are forgotten together, even if there are always others under way. */
const ANSWERED_MAX = 256

export class Connection {
  readonly #socket: Socket
  readonly #requestMs: number
  readonly #onEnd: () => void
  readonly #reader = new ReplyReader()
  /** In the order in which they were sent; those before `#first` are answered. */
  #pending: Pending[] = []
  #first = 0
  #unsent = ''
  #isUp = true
  #stopLooking: (() => void) | null = null

  /** The socket must be connected. `onEnd` is called once, when nothing more can be sent. */
  constructor(socket: Socket, requestMs: number, onEnd: () => void) {
    this.#socket = socket
    this.#requestMs = requestMs
    this.#onEnd = onEnd
    socket.on('data', (chunk: Buffer) => this.#received(chunk))
    socket.on('error', (error) => this.#end(unanswered(error)))
    socket.on('close', () => this.#end(unanswered(null)))
    socket.unref()
  }

  get isUp(): boolean {
    return this.#isUp
  }

  /** Sends one request, whose text ends with a line break and has one byte in each character. */
  send(text: string, expect: Expect): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (!this.#isUp) {
        reject(unanswered(null))
        return
      }
      // Only a request that is waited for keeps the process alive.
      if (this.#first === this.#pending.length) this.#socket.ref()
      this.#pending.push({ expect, dueAt: monotonicMs() + this.#requestMs, resolve, reject })
      // After all that is ready to run now has run, so that what it asks for goes out together.
      if (this.#unsent === '') nextTick(() => this.#flush())
      this.#unsent += text
      this.#stopLooking ??= every(LOOK_MS, () => this.#look())
    })
  }

  /** Ends the connection now. What has no answer yet gets none. */
  close(): void {
    this.#end(unanswered(null))
  }

  #flush(): void {
    const text = this.#unsent
    this.#unsent = ''
    if (this.#isUp) this.#socket.write(text, 'latin1')
  }

  #received(chunk: Buffer): void {
    this.#reader.push(chunk)
    try {
      while (this.#reader.hasMore) {
        const pending = this.#pending[this.#first]
        if (pending === undefined) throw new WireError('An answer came that nobody asked for.')
        const answer = this.#reader.next(pending.expect)
        if (answer === null) return
        this.#first += 1
        if (this.#first >= ANSWERED_MAX) this.#forget()
        pending.resolve(answer)
      }
    } catch (error) {
      this.#end(unanswered(error))
      return
    }
    this.#settle()
  }

  /** Lets the process end where no request is under way. */
  #settle(): void {
    if (this.#first < this.#pending.length) return
    this.#forget()
    this.#socket.unref()
  }

  /** Forgets those that are answered. */
  #forget(): void {
    this.#pending = this.#pending.slice(this.#first)
    this.#first = 0
  }

  /** All have the same time, so it is enough to look at the one that was sent first. */
  #look(): void {
    const pending = this.#pending[this.#first]
    if (pending === undefined) {
      this.#stopLooking?.()
      this.#stopLooking = null
    } else if (pending.dueAt <= monotonicMs()) {
      this.#end(tooLate(this.#requestMs))
    }
  }

  #end(error: Error): void {
    if (!this.#isUp) return
    this.#isUp = false
    this.#stopLooking?.()
    this.#stopLooking = null
    this.#socket.destroy()
    const left = this.#pending.slice(this.#first)
    this.#pending = []
    this.#first = 0
    this.#onEnd()
    for (const { reject } of left) reject(error)
  }
}
