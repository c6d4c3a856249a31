/**
 * What Consul and the way to it report becomes Holdfast's own error here and nowhere else. What is not understood is given
 * back as it is: read as contention, it would turn a defect into a wait.
 */

import {
  BackendUnavailableError,
  HoldfastError,
  OutcomeUnknownError,
  quote,
  UnsupportedError,
} from '../../core/errors.js'
import { notReached } from '../shared/not-reached.js'

const BACKEND = 'consul'

/** What an agent may say goes into a message only so far. */
const SAID_LENGTH_MAX = 200

interface Meaning {
  readonly kind: 'unavailable' | 'unknown' | 'final'
  readonly text: string
}

/** By what the agent says, since the status alone says little: nearly everything is a 500. */
const SAYINGS: readonly (readonly [RegExp, Meaning])[] = [
  [
    /No cluster leader/i,
    { kind: 'unavailable', text: 'has no leader at present, or this agent does not reach it.' },
  ],
  [
    /Invalid Session TTL/i,
    {
      kind: 'final',
      text:
        'does not take a session of this length. Its `session_ttl_min` is higher than the option `ttlMinMs`: leave that ' +
        'option out, or lower the setting of the servers.',
    },
  ],
  [/No path to datacenter/i, { kind: 'final', text: 'knows no such datacenter.' }],
  [
    /Permission denied|ACL not found|ACL support disabled/i,
    {
      kind: 'final',
      text: 'does not let this token do that. `holdfast doctor` tells which rights are needed.',
    },
  ],
  [
    /leadership lost|leader changed|not the leader|rpc error|\bEOF\b|timed? ?out|i\/o|connection re|shutdown|raft|yamux|stream closed/i,
    { kind: 'unknown', text: 'lost its leader, or the way to it, while it worked on the request.' },
  ],
]

/** What to throw for an answer that is no success. */
export function answerError(status: number, said: string): Error {
  const context = { backend: BACKEND }
  if (status === 429) {
    return new BackendUnavailableError(
      'Consul turned the request away, because too many came, or over too many connections. Raise ' +
        '`limits.http_max_conns_per_client` of the agent, or use fewer clients.',
      context,
    )
  }
  const found = SAYINGS.find(([pattern]) => pattern.test(said))?.[1]
  const meaning =
    found ??
    (status === 403 ? SAYINGS.find(([pattern]) => pattern.test('Permission denied'))?.[1] : undefined)
  if (meaning === undefined) {
    return new Error(
      `Consul answered with status ${status}: ${quote(said.trim().slice(0, SAID_LENGTH_MAX))}.`,
    )
  }
  const message = `Consul ${meaning.text}`
  switch (meaning.kind) {
    case 'unavailable':
      return new BackendUnavailableError(message, context)
    case 'unknown':
      return new OutcomeUnknownError(message, context)
    case 'final':
      return new UnsupportedError(message, context)
  }
}

/** What to throw for whatever went wrong between here and an agent. */
export function transportError(error: unknown, wasSent: boolean): unknown {
  if (error instanceof HoldfastError || !(error instanceof Error)) return error
  const code: unknown = Reflect.get(error, 'code')
  const context = { backend: BACKEND, cause: error }
  if (isCertificate(code)) {
    return new UnsupportedError(
      "The certificate of Consul's agent is not one to trust. Give its authority with the option `ca`.",
      context,
    )
  }
  if (!wasSent) return notReached('Consul', error, context)
  if (typeof code === 'string' && code.startsWith('HPE_')) return strangeAnswer('it is not HTTP', error)
  return new OutcomeUnknownError('The connection to Consul ended before an answer came.', context)
}

function isCertificate(code: unknown): boolean {
  return typeof code === 'string' && /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ERR_TLS/.test(code)
}

export function lateAnswer(ms: number): OutcomeUnknownError {
  return new OutcomeUnknownError(`Consul did not answer within ${ms} ms.`, { backend: BACKEND })
}

/** An answer that our own question cannot have had: what became of the question is not known. */
export function strangeAnswer(what: string, cause?: unknown): OutcomeUnknownError {
  return new OutcomeUnknownError(
    `What answered for Consul said something strange: ${what}. Is it an agent of Consul, or is a proxy in between?`,
    { backend: BACKEND, cause },
  )
}

/** Something between here and the agent has taken the date off its answers. */
export function undated(): UnsupportedError {
  return new UnsupportedError(
    'The answers of Consul have no date, which tells how long records stay. Is a proxy in between that removes it?',
    { backend: BACKEND },
  )
}

/** The key is there, and is no lock of this kind: somebody else keeps something of his own in it. */
export function foreignKey(key: string, resource: string): UnsupportedError {
  return new UnsupportedError(
    `The key ${quote(key)} in Consul is in use for something that is no lock, so it is left alone. Use another name or prefix.`,
    { backend: BACKEND, resource },
  )
}

/** Whether a request may have been carried out. An error that is not understood says nothing of that, so it counts, too. */
export function mayHaveHappened(error: unknown): boolean {
  return !(error instanceof BackendUnavailableError) && !(error instanceof UnsupportedError)
}
