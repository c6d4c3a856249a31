import { inspect } from 'node:util'
import { CommanderError } from 'commander'
import {
  AcquireTimeoutError,
  type AnyHoldfastError,
  type ErrorCode,
  HoldfastError,
  InvalidInputError,
} from 'holdfast'
import { EXIT, exitCodeOfSignal } from './exit-codes.js'
import { formatDuration } from './format/duration.js'
import { escapeText, redactCredentials } from './format/escape.js'
import { describeOwner, quoteName } from './format/views.js'
import { Interrupted, OutputClosed, OutputFailed } from './interruption.js'

/** The command was called in a way that cannot work. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'UsageError'
  }
}

export interface Failure {
  readonly exitCode: number
  /** One line for people; null where everything was said already, or nothing needs to be. */
  readonly message: string | null
}

/** What an error means to whoever called the command. Never throws, whatever the error is. */
export function explain(error: unknown): Failure {
  if (error instanceof Interrupted) return { exitCode: exitCodeOfSignal(error.signal), message: null }
  if (error instanceof OutputClosed) return { exitCode: EXIT.ok, message: null }
  if (error instanceof OutputFailed) return { exitCode: EXIT.internal, message: oneLine(error.message) }
  if (error instanceof CommanderError) return explainParsing(error)
  if (error instanceof UsageError) return { exitCode: EXIT.usage, message: oneLine(error.message) }
  if (error instanceof HoldfastError) {
    return { exitCode: exitCodeOf((error as AnyHoldfastError).code), message: oneLine(wordFor(error)) }
  }
  const text = error instanceof Error ? error.message : String(error)
  return { exitCode: EXIT.internal, message: oneLine(`internal error: ${text}`) }
}

/** The whole story, for whoever set HOLDFAST_DEBUG. */
export function debugText(error: unknown): string {
  const text = redactCredentials(inspect(error, { depth: 5, colors: false }))
  return text.split('\n').map(escapeText).join('\n')
}

/** Commander has printed its own message, and a shown help or version is no failure. */
function explainParsing(error: CommanderError): Failure {
  const shown = error.exitCode === 0
  return { exitCode: shown ? EXIT.ok : EXIT.usage, message: null }
}

function exitCodeOf(code: ErrorCode): number {
  switch (code) {
    case 'INVALID_INPUT':
    case 'UNSUPPORTED':
    case 'SHAPE_CONFLICT':
    case 'WEIGHT_CONFLICT':
      return EXIT.usage
    case 'BACKEND_UNAVAILABLE':
    case 'OUTCOME_UNKNOWN':
      return EXIT.unavailable
    case 'ACQUIRE_TIMEOUT':
    case 'QUEUE_FULL':
    case 'DEADLOCK':
    case 'LOCK_TIMEOUT':
    case 'SERIALIZATION':
      return EXIT.notAcquired
    case 'LOCK_LOST':
      return EXIT.lockLost
    case 'NOT_HELD':
    case 'STALE_FENCE':
    case 'STALE_VERSION':
    case 'CONDITION_FAILED':
    case 'LOCK_ORDER':
    case 'ROW_MISSING':
    case 'CLOSED':
    case 'KEY_REUSED':
    case 'IN_PROGRESS':
    case 'ABANDONED':
    case 'REPLAYED_FAILURE':
    case 'RESULT_NOT_KEPT':
    case 'TOKEN_REFUSED':
      return EXIT.internal
  }
}

/** The library speaks of its own options; here they have the names that were typed. */
const TYPED_AS: ReadonlyMap<string, string> = new Map([
  ['name', 'NAME'],
  ['prefix', 'PREFIX'],
  ['ttlMs', '--ttl'],
  ['waitMs', '--wait'],
  ['limit', '--limit'],
  ['note', '--note'],
  ['reason', '--reason'],
  ['ref', '--ref'],
  ['url', '--url'],
])

/** A wait this short was a single try, whatever the store took to answer it. */
const INSTANT_MS = 100

function wordFor(error: HoldfastError): string {
  if (error instanceof AcquireTimeoutError) {
    const name = error.resource === null ? 'the lock' : quoteName(error.resource)
    const holder = error.holder === null ? '' : `; it is held by ${describeOwner(error.holder)}`
    const waited =
      error.waitedMs < INSTANT_MS ? 'is taken' : `was not free within ${formatDuration(error.waitedMs)}`
    return `${name} ${waited}${holder}`
  }
  if (error instanceof InvalidInputError) {
    const typed = TYPED_AS.get(error.option)
    const known = `\`${error.option}\``
    return typed === undefined ? error.message : error.message.replace(known, typed)
  }
  return error.message
}

function oneLine(message: string): string {
  return escapeText(redactCredentials(message.trim().replaceAll(/\s*\n\s*/g, ' ')))
}
