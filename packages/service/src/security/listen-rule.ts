import { isLoopback } from './hosts.js'

export interface ListenPlan {
  readonly host: string
  readonly auth: boolean
  readonly tls: boolean
  readonly insecure: boolean
}

/** The service would be open to other machines without protection. */
export class ListenError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ListenError'
  }
}

/**
 * Throws unless the service may be opened there. Whoever reaches it can take and break locks, and reads the claims that
 * pass by, so other machines are let in only with authentication and TLS, or where that is asked for by name.
 */
export function checkListen({ host, auth, tls, insecure }: ListenPlan): void {
  if (insecure || (auth && tls) || isLoopback(host)) return
  const missing = [
    ...(auth ? [] : ['`auth` (--auth FILE; make one with "holdfast token create")']),
    ...(tls ? [] : ['`tls` (--tls-cert FILE --tls-key FILE)']),
  ]
  throw new ListenError(
    `${describeHost(host)} can be reached from other machines: give ${missing.join(' and ')}, ` +
      'or listen on 127.0.0.1, or say `insecure: true` (--insecure) if something in front of it protects it.',
  )
}

function describeHost(host: string): string {
  return /^[A-Za-z0-9.:_-]{1,253}$/.test(host) ? host : 'That address'
}
