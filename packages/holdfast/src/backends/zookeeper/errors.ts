/** What went wrong, in the words of Holdfast. This is the one place that reads the codes of ZooKeeper. */

import {
  BackendUnavailableError,
  HoldfastError,
  OutcomeUnknownError,
  quote,
  UnsupportedError,
} from '../../core/errors.js'
import { ZooKeeperError, type ZooKeeperErrorCode } from './wire/errors.js'

const BACKEND = 'zookeeper'

/** The codes after which nobody knows whether a request was carried out, if it was sent. */
const SILENT: ReadonlySet<ZooKeeperErrorCode> = new Set([
  'CONNECTION_LOSS',
  'OPERATION_TIMEOUT',
  'SESSION_EXPIRED',
  'SESSION_MOVED',
  'UNKNOWN_SESSION',
  'CLOSED',
  'PROTOCOL',
])

/** The codes of a server that does nothing for the moment. */
const BUSY: ReadonlySet<ZooKeeperErrorCode> = new Set(['READ_ONLY', 'REQUEST_TIMEOUT', 'THROTTLED'])

const ADVICE: Partial<Record<ZooKeeperErrorCode, string>> = {
  NO_AUTH: 'The access list of the path does not let this client in. Give `auth`, or have the path opened.',
  AUTH_FAILED: 'The credentials were not accepted. Check `auth`.',
  INVALID_ACL: 'The access list `acl` is not valid. `creator` needs `auth`.',
  NO_CHILDREN_FOR_EPHEMERALS:
    'The path is a node of a session, which can have no line below it: another program, or the recipe `ephemeral`, uses ' +
    'the name. Use one recipe for a name.',
  QUOTA_EXCEEDED: 'A quota of the path is used up.',
  EPHEMERAL_ON_LOCAL_SESSION: 'The server gives local sessions only, which keep no nodes.',
}

/** Rethrown as it is where it is not understood. */
export function zookeeperError(error: unknown): unknown {
  if (error instanceof HoldfastError || !(error instanceof ZooKeeperError)) return error
  const { code, wasSent } = error
  const context = { backend: BACKEND, cause: error }
  if (SILENT.has(code)) {
    return wasSent
      ? new OutcomeUnknownError(
          'ZooKeeper did not answer, so nobody knows what became of the request.',
          context,
        )
      : new BackendUnavailableError('There is no connection to ZooKeeper.', context)
  }
  if (BUSY.has(code)) return new BackendUnavailableError('ZooKeeper serves nobody at the moment.', context)
  const advice = ADVICE[code]
  return advice === undefined ? error : new UnsupportedError(`ZooKeeper refused. ${advice}`, context)
}

export function mixedRecipes(resource: string): UnsupportedError {
  return new UnsupportedError(
    `${quote(resource)} is in use with another recipe, and the recipes do not see each other. Use one recipe for a name.`,
    { backend: BACKEND, resource },
  )
}

export function removedAgain(resource: string): BackendUnavailableError {
  return new BackendUnavailableError(
    `The nodes of ${quote(resource)} are removed by somebody as fast as they are made. Find out who does it.`,
    { backend: BACKEND, resource },
  )
}

export function outOfOrder(): ZooKeeperError {
  return new ZooKeeperError('PROTOCOL', 'ZooKeeper answered the parts of a multi in another order.', {
    wasSent: true,
  })
}

/** What the call gives, or the error in the words of Holdfast. */
export async function translated<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    throw zookeeperError(error)
  }
}

export function hasCode(error: unknown, code: ZooKeeperErrorCode): boolean {
  return error instanceof ZooKeeperError && error.code === code
}

/** What the call gives; null where there is no such node. */
export async function unlessMissing<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call
  } catch (error) {
    if (hasCode(error, 'NO_NODE')) return null
    throw error
  }
}
