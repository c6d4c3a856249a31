/** What can go wrong between this client and a ZooKeeper server, with one name for each number of the protocol. */

const CODES = {
  '-1': 'SYSTEM_ERROR',
  '-2': 'RUNTIME_INCONSISTENCY',
  '-3': 'DATA_INCONSISTENCY',
  '-4': 'CONNECTION_LOSS',
  '-5': 'MARSHALLING_ERROR',
  '-6': 'UNIMPLEMENTED',
  '-7': 'OPERATION_TIMEOUT',
  '-8': 'BAD_ARGUMENTS',
  '-12': 'UNKNOWN_SESSION',
  '-13': 'NEW_CONFIG_NO_QUORUM',
  '-14': 'RECONFIG_IN_PROGRESS',
  '-100': 'API_ERROR',
  '-101': 'NO_NODE',
  '-102': 'NO_AUTH',
  '-103': 'BAD_VERSION',
  '-108': 'NO_CHILDREN_FOR_EPHEMERALS',
  '-110': 'NODE_EXISTS',
  '-111': 'NOT_EMPTY',
  '-112': 'SESSION_EXPIRED',
  '-113': 'INVALID_CALLBACK',
  '-114': 'INVALID_ACL',
  '-115': 'AUTH_FAILED',
  '-118': 'SESSION_MOVED',
  '-119': 'READ_ONLY',
  '-120': 'EPHEMERAL_ON_LOCAL_SESSION',
  '-121': 'NO_WATCHER',
  '-122': 'REQUEST_TIMEOUT',
  '-123': 'RECONFIG_DISABLED',
  '-124': 'SASL_REQUIRED',
  '-125': 'QUOTA_EXCEEDED',
  '-127': 'THROTTLED',
} as const

/**
 * `CLOSED` and `PROTOCOL` come from this client only: the session was closed here, or the server sent something that is
 * no answer. `UNKNOWN_ERROR` is a number that no known version of ZooKeeper sends.
 */
export type ZooKeeperErrorCode = (typeof CODES)[keyof typeof CODES] | 'CLOSED' | 'PROTOCOL' | 'UNKNOWN_ERROR'

const MEANINGS: Partial<Record<ZooKeeperErrorCode, string>> = {
  NO_NODE: 'there is no such node',
  NODE_EXISTS: 'the node exists already',
  NOT_EMPTY: 'the node has children',
  BAD_VERSION: 'the node has another version',
  NO_AUTH: 'the access list of the node does not allow it; check `auth` and the ACL',
  AUTH_FAILED: 'the server did not accept the credentials; check `auth`',
  INVALID_ACL: 'the access list is not valid for this session',
  NO_CHILDREN_FOR_EPHEMERALS: 'a node that belongs to a session cannot have children',
  SESSION_EXPIRED: 'the session has expired; open a new one',
  SESSION_MOVED: 'the session has moved to another server',
  SASL_REQUIRED: 'the server wants credentials; give `auth`',
  UNIMPLEMENTED: 'the server does not know this request',
  READ_ONLY: 'the server takes no writes at the moment',
  REQUEST_TIMEOUT: 'the server gave up on the request',
  QUOTA_EXCEEDED: 'a quota of the node is used up',
  THROTTLED: 'the server has too much to do',
}

export interface ZooKeeperErrorDetails {
  readonly path?: string | null
  /** False means that the request certainly was not applied, because it was never sent. */
  readonly wasSent?: boolean
  /** The operation of a `multi` that failed. */
  readonly index?: number
  readonly cause?: unknown
}

/** Every rejection of the wire client. Its message carries no credentials. */
export class ZooKeeperError extends Error {
  override readonly name = 'ZooKeeperError'
  readonly code: ZooKeeperErrorCode
  readonly path: string | null
  /**
   * False means that the request was never sent. True with `CONNECTION_LOSS`, `SESSION_EXPIRED`, `CLOSED` or `PROTOCOL`
   * means that nobody knows whether it was applied; every other code is an answer of the server.
   */
  readonly wasSent: boolean
  readonly index: number | null

  constructor(code: ZooKeeperErrorCode, message: string, details: ZooKeeperErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    this.path = details.path ?? null
    this.wasSent = details.wasSent ?? false
    this.index = details.index ?? null
  }
}

export function codeOf(number: number): ZooKeeperErrorCode {
  const key = String(number)
  return isKnown(key) ? CODES[key] : 'UNKNOWN_ERROR'
}

/** Whether a session that is told so is over: another attempt would be told the same. */
export function isFinal(code: ZooKeeperErrorCode): boolean {
  return code === 'SESSION_EXPIRED' || code === 'AUTH_FAILED' || code === 'SASL_REQUIRED'
}

function isKnown(key: string): key is keyof typeof CODES {
  return Object.hasOwn(CODES, key)
}

/** The server answered that it did not do what was asked. */
export function refusal(
  number: number,
  request: string,
  path: string | null,
  index?: number,
): ZooKeeperError {
  const code = codeOf(number)
  const what = MEANINGS[code] ?? `the server answered ${code} (${number})`
  const where = path === null ? '' : ` of '${path}'`
  const part = index === undefined ? '' : ` (operation ${index} of a multi)`
  const details = { path, wasSent: true }
  return new ZooKeeperError(
    code,
    `ZooKeeper refused ${request}${where}${part}: ${what}.`,
    index === undefined ? details : { ...details, index },
  )
}

/** The server sent something that is no answer. */
export function garbage(what: string): ZooKeeperError {
  return new ZooKeeperError('PROTOCOL', `The server does not speak the protocol of ZooKeeper: ${what}.`, {
    wasSent: true,
  })
}

export function expired(): ZooKeeperError {
  const text = 'The server says that the session has expired.'
  return new ZooKeeperError('SESSION_EXPIRED', text, { wasSent: true })
}

export function connectionLoss(what: string, cause?: unknown): ZooKeeperError {
  return new ZooKeeperError('CONNECTION_LOSS', what, {
    wasSent: true,
    ...(cause === undefined ? {} : { cause }),
  })
}

/** The same trouble, as seen by one request. */
export function forRequest(
  error: ZooKeeperError,
  request: string,
  path: string | null,
  wasSent: boolean,
): ZooKeeperError {
  const outcome = wasSent ? 'it is not known whether it was applied' : 'it was not sent'
  const where = path === null ? '' : ` of '${path}'`
  return new ZooKeeperError(error.code, `No answer to ${request}${where}: ${outcome}. ${error.message}`, {
    path,
    wasSent,
    cause: error,
  })
}
