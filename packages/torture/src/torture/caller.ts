import { HoldfastError } from 'holdfast'
import type { Diary } from './diary.js'
import type { OpenRequests } from './recorded-store.js'

/** A call that has not come back. */
export interface Wait {
  readonly since: number
  readonly name: string
  readonly p: string
  /** false: it asks once, and is never in a queue. */
  readonly queues: boolean
}

/** Counts of a whole process, for those who watch. */
export class Tally {
  acquired = 0
  lost = 0
  refused = 0
  unknown = 0
  /** What is held, to be told that the library takes the machine for one that has slept. */
  readonly held = new Set<{ sleepNoticed(): void }>()
  /** Whether the library has noticed a sleep in the present turn of the event loop. */
  sleptInTurn = false
  /** What each caller waits for, and since when, in the order in which they asked. */
  readonly waits = new Map<object, Wait>()

  /** The caller of this process that has waited longest for a name: the one that its request in the queue is for. */
  firstInQueue(name: string): string | null {
    for (const wait of this.waits.values()) if (wait.queues && wait.name === name) return wait.p
    return null
  }

  /** The library is about to shorten its leases, because the machine seems to have slept. */
  sleepNoticed(): void {
    for (const hold of this.held) hold.sleepNoticed()
    this.sleptInTurn = true
    setImmediate(() => {
      this.sleptInTurn = false
    })
  }
}

/**
 * One caller: an async loop that does one call at a time on each resource. A call whose outcome nobody knows may have
 * its effect at any time later, so the caller goes on under another name.
 */
export class Caller {
  readonly diary: Diary
  readonly tally: Tally
  /** The requests of this process at the store; null where they are not recorded. */
  readonly requests: OpenRequests | null
  readonly #name: string
  #renamed = 1

  constructor(diary: Diary, tally: Tally, number: number | string, requests: OpenRequests | null = null) {
    this.diary = diary
    this.tally = tally
    this.requests = requests
    this.#name = `${diary.process}.${number}`
  }

  /** The name in the history. */
  get p(): string {
    return this.#renamed === 1 ? this.#name : `${this.#name}#${this.#renamed}`
  }

  rename(): void {
    this.#renamed += 1
  }
}

/** Errors that say for certain that the call had no effect. */
const CERTAIN: readonly string[] = ['ACQUIRE_TIMEOUT', 'LOCK_LOST', 'NOT_HELD', 'CALLED_OFF']
/** Errors that a run with faults is full of, after which nobody knows. */
const UNKNOWN: readonly string[] = ['BACKEND_UNAVAILABLE', 'OUTCOME_UNKNOWN']

export interface Judged {
  readonly type: 'fail' | 'info'
  readonly code: string
  /** Neither a refusal nor trouble with the store: nobody should ever see it. */
  readonly unexpected: boolean
}

/** The reason that calls are called off with. */
export class CalledOff extends Error {
  readonly code = 'CALLED_OFF'
}

export function judge(error: unknown): Judged {
  const code = error instanceof HoldfastError || error instanceof CalledOff ? error.code : 'UNEXPECTED'
  if (CERTAIN.includes(code)) return { type: 'fail', code, unexpected: false }
  return { type: 'info', code, unexpected: !UNKNOWN.includes(code) }
}
