import type { FastifyInstance, FastifyRequest } from 'fastify'
import { BodyError } from './refused.js'

/** Deeper than anything that is meant, and far from where a walk through it would run out of stack. */
const DEPTH_MAX = 64

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Reads bodies, in place of the reader of the framework, which takes bytes that are no UTF-8 for question marks: two
 * names that differ would become one. A body that is not there counts as an empty object.
 */
export function readJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    try {
      const parsed = parseBody(body as Buffer)
      if (request.routeOptions.config.keepsBody === true) bodies.set(request, body as Buffer)
      done(null, parsed)
    } catch (error) {
      done(error instanceof Error ? error : new BodyError('The body cannot be read.'))
    }
  })
}

const bodies = new WeakMap<FastifyRequest, Buffer>()

/** The text of a body, for routes with `keepsBody`: it says more than the parsed value about long numbers and repeated fields. */
export function bodyTextOf(request: FastifyRequest): string {
  return bodies.get(request)?.toString('utf8') ?? ''
}

export function parseBody(body: Buffer): unknown {
  if (body.length === 0) return {}
  if (isTooDeep(body)) throw new BodyError(`The body is nested deeper than ${DEPTH_MAX} levels.`)
  let value: unknown
  try {
    const text = decoder.decode(body)
    // Looking at every field takes far longer than parsing, so it is done only where there can be something to find.
    value = SUSPECT.test(text) ? JSON.parse(text, refusePoison) : JSON.parse(text)
  } catch (error) {
    if (error instanceof BodyError) throw error
    // The parser quotes what it stumbled over, and that may be a claim.
    throw new BodyError('The body is not JSON in UTF-8.')
  }
  return value
}

/** The names themselves, or an escape with which they could be written. */
const SUSPECT = /__proto__|constructor|\\u00/i

/** Own properties of these names reach the prototype of whatever they are once copied to. */
function refusePoison(key: string, value: unknown): unknown {
  const reaches = typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype')
  if (key === '__proto__' || (key === 'constructor' && reaches))
    throw new BodyError('The body has a field of a name that is not allowed.')
  return value
}

const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Counts brackets outside of strings. What is no JSON is refused later; here only the depth matters. */
function isTooDeep(body: Buffer): boolean {
  if (body.length <= DEPTH_MAX) return false
  let depth = 0
  let inString = false
  for (let at = 0; at < body.length; at += 1) {
    const byte = body[at]
    if (inString) {
      if (byte === BACKSLASH) at += 1
      else if (byte === QUOTE) inString = false
    } else if (byte === QUOTE) inString = true
    else if (byte === 0x5b || byte === 0x7b) {
      depth += 1
      if (depth > DEPTH_MAX) return true
    } else if (byte === 0x5d || byte === 0x7d) depth -= 1
  }
  return false
}
