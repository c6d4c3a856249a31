/** What a request says, as one digest. The same key with another digest is refused. */

import { isUtf8 } from 'node:buffer'
import { isDeepStrictEqual } from 'node:util'
import { canonicalJson } from '../idempotency/canonical.js'
import { canonicalJsonText } from '../idempotency/json-text.js'
import { digestOfParts } from '../idempotency/keys.js'

/** `unreadable`: there is a body, and what is known of it does not tell it from another one. */
export type RequestBody =
  | { readonly kind: 'none' }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'unreadable' }

export interface RequestFacts {
  readonly method: string
  /** With its query. */
  readonly url: string
  readonly mediaType: string
  readonly body: RequestBody
}

const JSON_TYPE = /^(?:application\/json|[^/]+\/[^/]+\+json)$/

/** null: the body cannot be compared. */
export function digestOfRequest({ method, url, mediaType, body }: RequestFacts): string | null {
  const content = contentOf(body, mediaType)
  return content === null ? null : digestOfParts('request', [method, url, mediaType, ...content])
}

/** Without its parameters: a charset in another spelling is no other request, and a boundary is new for every one. */
export function mediaTypeOf(contentType: string | null | undefined): string {
  return (contentType ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

/** The boundary between parts is new in every request, and parsers put files elsewhere: the body itself says too little. */
export function isMultipart(mediaType: string): boolean {
  return mediaType.startsWith('multipart/')
}

/**
 * What a parser of the framework has made of a body; undefined: none has seen it. `raw` is the JSON text as it came, where the
 * program keeps it: it says more than the parsed value.
 */
export function bodyOfParsed(
  parsed: unknown,
  mediaType: string,
  hasContent: boolean,
  raw?: unknown,
): RequestBody {
  if (isMultipart(mediaType)) return { kind: 'unreadable' }
  if (JSON_TYPE.test(mediaType) && parsed !== undefined) {
    if (raw instanceof Uint8Array) return { kind: 'bytes', bytes: raw }
    if (typeof raw === 'string') return { kind: 'bytes', bytes: Buffer.from(raw) }
  }
  if (parsed === undefined || parsed === null) {
    if (parsed === null && mediaType !== '') return { kind: 'value', value: null }
    return { kind: hasContent ? 'unreadable' : 'none' }
  }
  if (parsed instanceof Uint8Array) return { kind: 'bytes', bytes: parsed }
  if (typeof parsed === 'string' && !JSON_TYPE.test(mediaType)) {
    return { kind: 'bytes', bytes: Buffer.from(parsed) }
  }
  return { kind: 'value', value: parsed }
}

/** A tag goes with each, so that no body of one kind looks like one of another. */
function contentOf(body: RequestBody, mediaType: string): readonly [string, string | Uint8Array] | null {
  switch (body.kind) {
    case 'none':
      return ['none', '']
    case 'bytes':
      return JSON_TYPE.test(mediaType) ? jsonContentOf(body.bytes) : ['bytes', body.bytes]
    case 'value': {
      const text = textOf(body.value)
      return text === null ? null : ['json', text]
    }
    case 'unreadable':
      return null
  }
}

/** What is no JSON is for the handler to refuse. Here it is enough that the same bytes are the same request. */
function jsonContentOf(bytes: Uint8Array): readonly [string, string | Uint8Array] {
  // Decoded, bytes that are no UTF-8 would all become the same character.
  const text = isUtf8(bytes) ? canonicalJsonText(Buffer.from(bytes).toString()) : null
  return text === null ? ['bytes', bytes] : ['json', text]
}

/** What has no canonical form is compared as it was written, if a body of JSON can say that. null: it cannot. */
function textOf(value: unknown): string | null {
  try {
    return canonicalJson(value)
  } catch {
    return plainText(value)
  }
}

/**
 * A text with half a character in it can be written and read again. A map, a form or a stream cannot: each would be written
 * as an empty object, and all of them would be the same request.
 */
function plainText(value: unknown): string | null {
  try {
    const text = JSON.stringify(value)
    return isDeepStrictEqual(JSON.parse(text), value) ? canonicalJsonText(text) : null
  } catch {
    return null
  }
}
