/** One request that is run once: from its claim to the moment when its answer may leave. The same for every framework. */

import { systemRuntime } from '../client/system.js'
import type { Idempotency } from '../idempotency/idempotency.js'
import type { Outcome, RunContext } from '../idempotency/types.js'
import { type Admission, type Admitted, admit, echoOf, type Incoming } from './admission.js'
import { type Answer, type HeaderPort, KEY_HEADER, putHeaders } from './answer.js'
import { type HttpContext, isLetIn, rememberContext } from './context.js'
import type { HttpSettings } from './options.js'
import { problemOfError } from './problem.js'
import {
  answerOfStored,
  type Captured,
  isEndless,
  type StoredResponse,
  storedResponse,
} from './stored-response.js'

/** All that is needed of an `Idempotency`. */
export type Runner = Pick<Idempotency, 'run'>

/** An answer does not wait longer than this for the store: the client has waited enough, and the store is told later. */
const HOLD_BACK_MS = 2_000

export type Entry =
  | { readonly kind: 'pass' }
  | { readonly kind: 'answer'; readonly answer: Answer }
  /** The handler shall run, and the exchange be told what came of it. */
  | { readonly kind: 'run'; readonly exchange: Exchange; readonly context: HttpContext }

/** Lets a request in, or answers it. Errors are those of hooks, or faults of the program: the framework answers them. */
export async function enter<Request>(
  runner: Runner,
  settings: HttpSettings<Request>,
  incoming: Incoming<Request>,
): Promise<Entry> {
  const admission: Admission = await admit(settings, incoming)
  if (admission.kind !== 'admitted') return admission
  if (isLetIn(incoming.identity, { runner, target: admission.admitted.target })) return { kind: 'pass' }
  return await new Exchange(runner, settings, admission.admitted).begin()
}

export class Exchange {
  readonly #runner: Runner
  readonly #settings: HttpSettings<never>
  readonly #admitted: Admitted
  readonly #stored: Deferred<StoredResponse> = deferred()
  #outcome: Promise<Outcome<StoredResponse>> | null = null
  #discards = false
  #omits = false
  #discard: () => void = () => {}

  constructor(runner: Runner, settings: HttpSettings<never>, admitted: Admitted) {
    this.#runner = runner
    this.#settings = settings
    this.#admitted = admitted
  }

  /** Lets others find the attempt by its request, or by the one that is made of it. */
  remember(request: object, context: HttpContext): void {
    rememberContext(request, context, { runner: this.#runner, target: this.#admitted.target })
  }

  get maxBodyBytes(): number {
    return this.#settings.maxBodyBytes
  }

  begin(): Promise<Entry> {
    return new Promise((resolve, reject) => {
      const work = (context: RunContext): Promise<StoredResponse> => {
        this.#discard = () => context.discard()
        resolve({ kind: 'run', exchange: this, context: this.#contextOf(context) })
        return this.#stored.promise
      }
      const { run, hooks } = this.#settings
      const options = hooks.fingerprint === false ? { ...run, fingerprint: false as const } : run
      this.#outcome = this.#runner.run(this.#admitted.target, work, options)
      // After the handler has begun, these change nothing: `finish` and `fail` look at the outcome.
      this.#outcome.then(
        ({ value }) => resolve({ kind: 'answer', answer: this.#replayOf(value) }),
        (error: unknown) => {
          const answer = problemOfError(error, this.#settings.describedBy)
          if (answer === null) reject(error as Error)
          else resolve({ kind: 'answer', answer })
        },
      )
    })
  }

  /** Whether an answer with these headers is to be collected, so that it can be given again. */
  mayKeep(contentType: string | null, contentLength: number | null): boolean {
    const { storeBody, maxBodyBytes } = this.#settings
    if (!storeBody || this.#omits || this.#discards || isEndless(contentType)) return false
    return contentLength === null || contentLength <= maxBodyBytes
  }

  /** Adds to a fresh answer what is said about it. */
  mark(port: HeaderPort): void {
    putHeaders(port, echoOf(this.#admitted), [KEY_HEADER, this.#settings.replayedHeader])
  }

  /**
   * The handler's answer is complete. It is stored, and may leave when this resolves: as it is, for null; or another one
   * instead, because somebody else has taken the work over meanwhile. Never rejects.
   */
  async finish(captured: Captured): Promise<Answer | null> {
    try {
      if (this.#discards || !this.#settings.keeps(captured)) this.#discard()
      const kept = this.#omits ? { ...captured, body: null } : captured
      this.#stored.resolve(await storedResponse(kept, this.#settings))
    } catch (error) {
      // A policy that throws decides nothing, and an answer that is not stored must be made again.
      this.#stored.reject(error)
    }
    return await this.#settled()
  }

  /** The handler has failed, and has no answer. Resolves when the next request may run. Never rejects. */
  async fail(error: unknown): Promise<void> {
    this.#stored.reject(error)
    await this.#settled()
  }

  async #settled(): Promise<Answer | null> {
    const outcome = this.#outcome
    if (outcome === null) return null
    return await new Promise((resolve) => {
      const timer = systemRuntime.timers.start(HOLD_BACK_MS, () => resolve(null), false)
      const end = (answer: Answer | null): void => {
        timer.cancel()
        resolve(answer)
      }
      outcome.then(
        ({ replayed, value }) => end(replayed ? this.#replayOf(value) : null),
        (error: unknown) => end(problemOfError(error, this.#settings.describedBy)),
      )
    })
  }

  #replayOf(stored: StoredResponse): Answer {
    const answer = answerOfStored(stored, this.#settings)
    const echo = echoOf(this.#admitted)
    return { ...answer, headers: [...answer.headers, ...echo], exposes: [KEY_HEADER, ...answer.exposes] }
  }

  #contextOf(context: RunContext): HttpContext {
    const { signal, fence, attempt, previous } = context
    return {
      signal,
      fence,
      attempt,
      previous,
      step: async (name, run) => await context.step(name, run),
      childKey: (name) => context.childKey(name),
      discard: () => {
        this.#discards = true
      },
      omitResult: () => {
        this.#omits = true
      },
    }
  }
}

interface Deferred<T> {
  readonly promise: Promise<T>
  resolve(value: T): void
  reject(error: unknown): void
}

function deferred<T>(): Deferred<T> {
  let resolve: (value: T) => void = () => {}
  let reject: (error: unknown) => void = () => {}
  const promise = new Promise<T>((fulfil, refuse) => {
    resolve = fulfil
    reject = refuse
  })
  return { promise, resolve: (value) => resolve(value), reject: (error) => reject(error) }
}
