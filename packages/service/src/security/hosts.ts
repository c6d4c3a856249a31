/**
 * Which requests come from where they seem to. A browser sends requests for any page that asks it to, and a page can give
 * its own name the address of this machine (DNS rebinding), so the names in a request are checked before anything else.
 */

import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { ForbiddenError, MediaTypeError, MisdirectedError } from './refused.js'

/** An address without its brackets, its zone, and the disguise of IPv4 in IPv6. */
export function plainAddress(host: string): string {
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
  const address = bare.toLowerCase().split('%', 1)[0] ?? ''
  return address.startsWith('::ffff:') && isIP(address.slice(7)) === 4 ? address.slice(7) : address
}

/** Whether the name or the address is that of this machine only. A name that merely resolves there is not. */
export function isLoopback(host: string): boolean {
  const address = plainAddress(host)
  if (address === 'localhost' || address === '::1' || address === '0:0:0:0:0:0:0:1') return true
  return isIP(address) === 4 && address.startsWith('127.')
}

const HOST = /^(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::\d{1,5})?$/

/** The host of a `Host` header, without its port; null for what is none. */
function hostnameOf(header: string): string | null {
  return HOST.exec(header)?.[1] ?? null
}

export interface HostRule {
  /** What is listened on. */
  readonly host: string
  readonly allowHosts: readonly string[]
}

/** Makes the check of `Host`. Most requests bring one of few texts, so an answer is remembered for the text. */
export function hostCheck(rule: HostRule): (request: FastifyRequest) => void {
  const plain = (host: string): string => plainAddress(hostnameOf(host.toLowerCase()) ?? host)
  const named = new Set([rule.host, ...rule.allowHosts].map(plain))
  named.delete('0.0.0.0')
  named.delete('::')
  const isNamed = (host: string): boolean => isLoopback(host) || named.has(plainAddress(host))
  let last = ''
  return (request) => {
    const header = request.headers.host ?? ''
    if (header !== '' && header === last) return
    const host = hostnameOf(header.toLowerCase())
    if (host !== null && isNamed(host)) {
      last = header
      return
    }
    // An address is nobody's name, so it cannot be bound to another one: the address that was really called is fine.
    const called = request.socket.localAddress
    if (host !== null && called !== undefined && plainAddress(host) === plainAddress(called)) return
    throw new MisdirectedError(
      'This service is not known by the name in the `Host` header. Whoever runs it can allow it with `allowHosts` (--allow-host).',
    )
  }
}

/** Refuses what a page of another origin makes a browser send. Programs send none of these headers. */
export function checkOrigin(request: FastifyRequest): void {
  const { origin, host, 'sec-fetch-site': site } = request.headers
  if (origin !== undefined && !isSameOrigin(origin, host ?? '')) {
    throw new ForbiddenError('The request comes from a page of another origin.')
  }
  if (site !== undefined && site !== 'same-origin' && site !== 'none' && !isVisit(request)) {
    throw new ForbiddenError('The request comes from another site.')
  }
}

/**
 * The name and the port must be the same. The scheme may differ: behind a proxy that ends TLS the page is `https` and the
 * service is not, and no second service can be on the same port of the same name.
 */
function isSameOrigin(origin: string, host: string): boolean {
  const match = /^https?:\/\/(.+)$/.exec(origin.toLowerCase())
  return match !== null && match[1] === host.toLowerCase()
}

/** A link from elsewhere that somebody follows to the page. */
function isVisit(request: FastifyRequest): boolean {
  const { method, headers } = request
  const reads = method === 'GET' || method === 'HEAD'
  return reads && headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document'
}

const JSON_TYPE = /^application\/json(?:\s*;\s*charset="?utf-8"?)?\s*$/i

/**
 * Everything that may change something must say that it is JSON, also without a body: a form or a script of another
 * origin cannot, unless the browser first asks for a permission that is never given.
 */
export function checkMediaType(request: FastifyRequest): void {
  const { method, headers } = request
  if (method === 'GET' || method === 'HEAD') return
  if (!JSON_TYPE.test(headers['content-type'] ?? '')) {
    throw new MediaTypeError('Send `Content-Type: application/json`, also without a body.')
  }
  if (headers['content-encoding'] !== undefined && headers['content-encoding'] !== 'identity') {
    throw new MediaTypeError('Send the body as it is: compressed ones are not read.')
  }
}
