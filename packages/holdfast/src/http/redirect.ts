/** POST, redirect, GET: what a browser shows after a form is a page that it can load again without sending the form again. */

import type { ServerResponse } from 'node:http'
import { InvalidInputError } from '../core/errors.js'
import { hasControl } from '../core/names.js'

export interface RedirectOptions {
  /** Origins besides this one that may be redirected to, such as `https://pay.example`. Default: none. */
  readonly allowOrigins?: readonly string[]
}

/** What is needed of a reply of Fastify. */
export interface RedirectReply {
  code(status: number): unknown
  header(name: string, value: string): unknown
  send(payload?: string): unknown
}

/** For Express and Fastify: answers with 303 to a page that is then loaded with GET. It is kept like any other answer. */
export function redirectAfterPost(
  response: ServerResponse | RedirectReply,
  url: string,
  options?: RedirectOptions,
): void
/** For Hono and fetch-style handlers: gives that answer. */
export function redirectAfterPost(url: string, options?: RedirectOptions): Response
export function redirectAfterPost(
  first: ServerResponse | RedirectReply | string,
  second?: string | RedirectOptions,
  third?: RedirectOptions,
): Response | undefined {
  if (typeof first === 'string') {
    const headers = headersFor(first, second as RedirectOptions | undefined)
    return new Response(null, { status: 303, headers })
  }
  const headers = Object.entries(headersFor(second as string, third))
  if ('setHeader' in first) {
    first.statusCode = 303
    for (const [name, value] of headers) first.setHeader(name, value)
    first.end()
    return undefined
  }
  first.code(303)
  for (const [name, value] of headers) first.header(name, value)
  first.send('')
  return undefined
}

function headersFor(url: string, options: RedirectOptions = {}): Record<string, string> {
  return { Location: locationOf(url, options.allowOrigins ?? []), 'Cache-Control': 'no-store' }
}

/** An origin that nobody has. */
const HERE = 'http://here.invalid'

/**
 * A path of this origin, or a URL of one that was allowed. Everything else is refused, because a place that a client could
 * choose would lead other people astray: `//evil.example` and `/\evil.example` are other origins to a browser, and so is
 * what becomes one of them when dots are resolved, such as `/.//evil.example`.
 */
function locationOf(url: unknown, allowOrigins: readonly string[]): string {
  const expected = 'a path such as `/orders/7`, or a URL of an origin in `allowOrigins`'
  if (typeof url !== 'string' || url.length > 8_192 || hasControl(url) || !url.isWellFormed()) {
    throw new InvalidInputError('url', expected, Symbol('something else'))
  }
  const parsed = URL.canParse(url, HERE) ? new URL(url, HERE) : null
  const path = parsed !== null && parsed.origin === HERE ? parsed.href.slice(HERE.length) : null
  if (path !== null && url.startsWith('/') && !path.startsWith('//')) return path
  const isAllowed = allowOrigins.some(
    (origin) => URL.canParse(origin) && new URL(origin).origin === parsed?.origin,
  )
  if (parsed !== null && isAllowed && /^https?:$/.test(parsed.protocol)) return parsed.href
  throw new InvalidInputError('url', expected, Symbol('something else'))
}
