/**
 * What Redis and its clients report becomes Holdfast's own error here and nowhere else. What is not understood is given
 * back as it is: read as contention, it would turn a defect into a wait.
 */

import {
  BackendUnavailableError,
  HoldfastError,
  OutcomeUnknownError,
  quote,
  UnsupportedError,
} from '../../core/errors.js'

/** The word that an error of the server begins with, such as `NOSCRIPT`; null for an error of the client. */
export function redisErrorCode(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  const isReply = error.name === 'ReplyError' || REPLY_CLASSES.has(error.constructor.name)
  return isReply ? codeOf(error.message) : null
}

/** ioredis names its class in `name`; node-redis has classes for simple and for bulk errors. */
const REPLY_CLASSES: ReadonlySet<string> = new Set(['ReplyError', 'ErrorReply', 'SimpleError', 'BlobError'])

function codeOf(message: string): string | null {
  // Before version 7.2, there is no word for a right that is missing inside a script.
  if (/^-?ERR The user executing the script\b/.test(message)) return 'NOPERM'
  // Before version 7, an error inside a script is wrapped into a text about the script.
  const inner = /^-?ERR Error (?:running|compiling) script .*?: ?@\w+: ?\d+: -?([A-Z][A-Z0-9_]*)\b/.exec(
    message,
  )
  return (inner ?? /^-?([A-Z][A-Z0-9_]*)\b/.exec(message))?.[1] ?? null
}

interface Advice {
  readonly text: string
  /** Waiting will not help, so nobody should. */
  readonly isFinal?: boolean
}

/** What the server says, and what to do about it. In every one of these cases it has done nothing. */
const ADVICE: ReadonlyMap<string, Advice> = new Map<string, Advice>([
  [
    'NOSCRIPT',
    { text: 'has forgotten the script twice in a row. Is something flushing its scripts all the time?' },
  ],
  [
    'READONLY',
    {
      text: 'is a replica and takes no writes. A failover may be under way; otherwise connect to the master.',
    },
  ],
  ['LOADING', { text: 'is still loading its data after a restart.' }],
  ['MASTERDOWN', { text: 'is a replica that has lost its master.' }],
  [
    'BUSY',
    { text: 'is busy running a script of somebody. `SCRIPT KILL` ends one that has written nothing.' },
  ],
  ['TRYAGAIN', { text: 'is moving the slot of this name to another node.' }],
  ['CLUSTERDOWN', { text: 'is a cluster that is not whole: some slots are served by nobody.' }],
  [
    'MOVED',
    {
      text: 'is a node of a cluster and sends elsewhere for this name. Use a cluster client, `redis+cluster://`.',
    },
  ],
  [
    'ASK',
    { text: 'is a node of a cluster that is moving this name. Use a cluster client, `redis+cluster://`.' },
  ],
  ['CROSSSLOT', { text: 'is a cluster. Use a cluster client, `redis+cluster://`.' }],
  ['OOM', { text: 'has no memory left for writes. Raise `maxmemory`, or free some.' }],
  [
    'NOREPLICAS',
    { text: 'has fewer replicas than its `min-replicas-to-write` asks for, and takes no writes.' },
  ],
  ['MISCONF', { text: 'takes no writes because it cannot save to disk. See its log.' }],
  ['NOAUTH', { text: 'wants a password.', isFinal: true }],
  ['WRONGPASS', { text: 'does not accept the user name or the password.', isFinal: true }],
  [
    'NOPERM',
    {
      text: 'does not let this user do that. `holdfast doctor` tells which rights are needed.',
      isFinal: true,
    },
  ],
  ['NOPROTO', { text: 'does not speak the protocol version that the client asks for.', isFinal: true }],
])

/** Certainly not sent: the client had no connection to send it over. */
const NOT_SENT: readonly RegExp[] = [
  /enableOfflineQueue/,
  /^The client is offline/,
  /^The client is closed/,
  /^Cluster isn't ready/,
  /^None of startup nodes is available/,
  /^Failed to refresh slots cache/,
  /^All sentinels are unreachable/,
  /^Cluster all nodes|^ClusterAllFailedError/,
  /^None of the sentinels are available/,
]
const NOT_SENT_CODES: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
])
const NOT_SENT_CLASSES: ReadonlySet<string> = new Set([
  'ClientOfflineError',
  'ClientClosedError',
  'ConnectionTimeoutError',
  'RootNodesUnavailableError',
  'ClusterAllFailedError',
])

/** Perhaps sent: the connection ended, or the client's own patience, before an answer came. */
const UNKNOWN: readonly RegExp[] = [
  /^Connection is closed/,
  /^Command timed out/,
  /^Command aborted due to connection close/,
  /max retries per request/,
  /^Socket closed unexpectedly/,
  /^Socket timeout/,
  /^Disconnects client/,
  /^The command was aborted|^The operation was aborted/,
  /too many Cluster redirections/i,
]
const UNKNOWN_CODES: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ECONNABORTED'])
const UNKNOWN_CLASSES: ReadonlySet<string> = new Set([
  'MaxRetriesPerRequestError',
  'AbortError',
  'SocketClosedUnexpectedlyError',
  'SocketTimeoutError',
  'TimeoutError',
  'DisconnectsClientError',
  'MaxCommandRedirectionsError',
])

/** What clients hang onto their errors: the arguments of a command have claim ids and passwords in them. */
const REVEALING: readonly string[] = ['command', 'buffer', 'previousErrors']
const NESTED: readonly string[] = ['cause', 'lastNodeError', 'errors']

/** Takes out of an error, and of those inside it, what must not get into a log. */
function silence(error: unknown, depth = 5): void {
  if (Array.isArray(error)) for (const each of error) silence(each, depth - 1)
  if (!(error instanceof Error) || error instanceof HoldfastError || depth === 0) return
  for (const property of REVEALING) Reflect.deleteProperty(error, property)
  for (const property of NESTED) silence(Reflect.get(error, property), depth - 1)
  // An unknown command is repeated by the server, with the beginning of its arguments.
  const [told] = error.message.split(', with args beginning with:', 1) as [string]
  if (told === error.message) return
  Reflect.set(
    error,
    'stack',
    error.stack?.replace(error.message, () => told),
  )
  Reflect.set(error, 'message', told)
}

/** What to throw for whatever a client rejected with. */
export function redisError(error: unknown, resource: string | null = null): unknown {
  if (error instanceof HoldfastError || !(error instanceof Error)) return error
  silence(error)
  const code = redisErrorCode(error)
  if (code !== null) return replyError(code, error.message, resource, error)
  const context = { resource, backend: 'redis', cause: error }
  if (matches(error, NOT_SENT, NOT_SENT_CODES, NOT_SENT_CLASSES)) {
    return new BackendUnavailableError('Redis was not reached, so nothing was done.', context)
  }
  if (matches(error, UNKNOWN, UNKNOWN_CODES, UNKNOWN_CLASSES)) {
    return new OutcomeUnknownError('The connection to Redis ended before an answer came.', context)
  }
  return error
}

/** The same for an error that a step of a script met, of which only the text is left. */
export function stepError(message: string, resource: string): unknown {
  const code = codeOf(message)
  return replyError(code ?? 'ERR', message, resource, new Error(message))
}

function replyError(code: string, message: string, resource: string | null, cause: Error): unknown {
  const context = { resource, backend: 'redis', cause }
  if (code === 'WRONGTYPE') {
    return new UnsupportedError(
      `The key for ${quote(resource)} is in use for something else. Use another name, or another \`prefix\`.`,
      context,
    )
  }
  if (code === 'HOLDFAST') {
    return new BackendUnavailableError(
      `What Redis has stored for ${quote(resource)} was not written by Holdfast, or the server's clock is far off ` +
        `(${message}). Look at the key, and delete it if it is not needed.`,
      context,
    )
  }
  const advice = ADVICE.get(code)
  if (advice === undefined) return cause
  const Class = advice.isFinal === true ? UnsupportedError : BackendUnavailableError
  return new Class(`The Redis server ${advice.text}`, context)
}

function matches(
  error: Error,
  messages: readonly RegExp[],
  codes: ReadonlySet<string>,
  classes: ReadonlySet<string>,
): boolean {
  const code: unknown = Reflect.get(error, 'code')
  return (
    classes.has(error.constructor.name) ||
    classes.has(error.name) ||
    (typeof code === 'string' && codes.has(code)) ||
    messages.some((pattern) => pattern.test(error.message))
  )
}

/**
 * A slot is being moved, and its names are on two nodes: a call for several of them is refused, and nothing is done. ioredis
 * tries again for a while, and then wraps what the server said.
 */
export function isTornSlot(error: unknown): boolean {
  if (redisErrorCode(error) === 'TRYAGAIN') return true
  return error instanceof Error && /^Too many Cluster redirections.*\bTRYAGAIN\b/.test(error.message)
}

/** The client does not know, for the moment, which node has the key. */
export function notServed(): BackendUnavailableError {
  return new BackendUnavailableError(
    'No node of the Redis cluster is known to serve this name at the moment.',
    {
      backend: 'redis',
    },
  )
}

export function notReplicated(confirmed: number, wanted: number, resource: string): BackendUnavailableError {
  return new BackendUnavailableError(
    `${fewReplicas(confirmed, wanted)} ${quote(resource)}, so it does not count and is taken back.`,
    { resource, backend: 'redis' },
  )
}

/** A claim of a record stands only if enough replicas have it. This one was taken back. */
export function claimNotReplicated(confirmed: number, wanted: number): BackendUnavailableError {
  return new BackendUnavailableError(
    `${fewReplicas(confirmed, wanted)} a claim, so it does not count and was taken back.`,
    { backend: 'redis' },
  )
}

/** A record was changed, and a failover may undo it. */
export function changeNotReplicated(confirmed: number, wanted: number): OutcomeUnknownError {
  return new OutcomeUnknownError(
    `${fewReplicas(confirmed, wanted)} a change of a record, so a failover may undo it.`,
    { backend: 'redis' },
  )
}

function fewReplicas(confirmed: number, wanted: number): string {
  return `Only ${confirmed} of the ${wanted} replicas that \`waitReplicas\` asks for have confirmed`
}

/** A node of a cluster has not answered while others have. */
export function hungNode(): OutcomeUnknownError {
  return new OutcomeUnknownError('The node of the Redis cluster that has this name did not answer in time.', {
    backend: 'redis',
  })
}

/** An answer that the recipe's own script cannot have given. */
export function strangeAnswer(answer: unknown): OutcomeUnknownError {
  return new OutcomeUnknownError(
    `Redis answered with something that Holdfast's script does not say (a ${typeof answer}). Is a proxy in between?`,
    { backend: 'redis' },
  )
}

const damages = new WeakSet<object>()

/** The key holds a queue of Holdfast, as far as the script can tell, and the client cannot read it. */
export function damagedKey(resource: string, cause: unknown): OutcomeUnknownError {
  const error = new OutcomeUnknownError(
    `What Redis has stored for ${quote(resource)} cannot be read. Look at the key, and delete it if it is not needed.`,
    { resource, backend: 'redis', cause },
  )
  damages.add(error)
  return error
}

/** Whether an error is about what one key holds, and says nothing of the store. */
export function isDamaged(error: unknown): boolean {
  if (!(error instanceof HoldfastError)) return false
  if (damages.has(error)) return true
  const message = error.cause instanceof Error ? error.cause.message : ''
  const code = codeOf(message)
  return code === 'WRONGTYPE' || (code === 'HOLDFAST' && message.includes('damaged'))
}
