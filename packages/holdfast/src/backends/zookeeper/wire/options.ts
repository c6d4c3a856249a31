/** What a client is told at its beginning, checked before anything is opened. */

import type { HostAndPort } from '../../../core/address.js'
import type { Credential } from './call.js'
import { ZooKeeperError } from './errors.js'
import type { SessionKey } from './session.js'
import { checkTls, type TlsSettings } from './socket.js'

export interface ZooKeeperOptions {
  /** Tried in an order of chance. */
  readonly hosts: readonly HostAndPort[]
  /** What is asked for; the server answers with what it allows, which is `sessionMs` of the client. */
  readonly sessionMs: number
  /** A path that is put before every path and taken off every answer and event. It is not created. */
  readonly chroot?: string
  /** Sent at every connect, for example `{ scheme: 'digest', credential: 'user:password' }`. */
  readonly auth?: readonly Credential[]
  readonly tls?: TlsSettings
  /** How long one attempt to connect may take; unless given, a third of the session, or less with many servers. */
  readonly connectMs?: number
  /**
   * A request that is not answered for so long rejects, and the connection is dropped. Unless given, the connection is
   * dropped when two thirds of the session pass without the answer that is due next.
   */
  readonly requestMs?: number
  /** The most bytes of a request or an answer; 4 MiB unless given. */
  readonly frameBytesMax?: number
  /** A session to go on with, instead of a new one. Whoever had it loses its connection. */
  readonly session?: SessionKey
}

const MS_MAX = 2_147_483_647

/** Throws BAD_ARGUMENTS. */
export function checkOptions({
  hosts,
  sessionMs,
  connectMs = 1,
  requestMs = 1,
  tls,
}: ZooKeeperOptions): void {
  if (hosts.length === 0) throw new ZooKeeperError('BAD_ARGUMENTS', 'Name at least one server in `hosts`.')
  for (const { port } of hosts) {
    if (Number.isInteger(port) && port > 0 && port < 65_536) continue
    throw new ZooKeeperError('BAD_ARGUMENTS', 'Every one of `hosts` needs a port from 1 to 65535.')
  }
  for (const [name, value] of Object.entries({ sessionMs, connectMs, requestMs })) {
    if (value > 0 && value <= MS_MAX) continue
    throw new ZooKeeperError('BAD_ARGUMENTS', `\`${name}\` must be a number of milliseconds over 0.`)
  }
  if (tls !== undefined) checkTls(tls)
}
