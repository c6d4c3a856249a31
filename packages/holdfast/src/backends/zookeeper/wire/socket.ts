/** Opens the connection to one server, with or without TLS. */

import { connect, isIP, type Socket } from 'node:net'
import { connect as connectTls, createSecureContext } from 'node:tls'
import type { HostAndPort } from '../../../core/address.js'
import { ZooKeeperError } from './errors.js'

/** Texts in PEM form. Certificates are checked unless `rejectUnauthorized` is false. */
export interface TlsSettings {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  readonly servername?: string
  readonly rejectUnauthorized?: boolean
}

/** A certificate or a key that cannot be read would be found out at every attempt to connect; it is refused at once. */
export function checkTls({ ca, cert, key }: TlsSettings): void {
  try {
    createSecureContext({ ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) })
  } catch (cause) {
    throw new ZooKeeperError('BAD_ARGUMENTS', 'A certificate or a key in `tls` is not in PEM form.', {
      cause,
    })
  }
}

/** Calls `opened` when bytes can be sent. */
export function openSocket(
  { host, port }: HostAndPort,
  tls: TlsSettings | undefined,
  opened: () => void,
): Socket {
  if (tls === undefined) {
    const socket = connect({ host, port, noDelay: true, keepAlive: true })
    return socket.once('connect', opened)
  }
  const { servername = isIP(host) === 0 ? host : '', rejectUnauthorized = true, ...pem } = tls
  // The name that was asked for is also the one that the certificate must have; an address stands for itself.
  const socket = connectTls({ host, port, ...pem, ...(servername ? { servername } : {}), rejectUnauthorized })
  socket.setNoDelay(true)
  return socket.once('secureConnect', opened)
}

export function addressText({ host, port }: HostAndPort): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
