/** An answer of a handler, as it is kept and given again. */

import { isUtf8 } from 'node:buffer'
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'
import type { Answer } from './answer.js'
import type { AnswerHead, HttpSettings } from './options.js'
import { problem } from './problem.js'

/** What goes to the store, through a codec. `kept` says how the body is written; null: it was not kept. */
export interface StoredResponse {
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly kept: 'text' | 'base64' | null
  readonly body: string
}

/** An answer that a handler has completed. `body` null: it is not to be kept, because it is a stream, or too long. */
export interface Captured extends AnswerHead {
  readonly body: Uint8Array | null
}

type Keeping = Pick<HttpSettings<never>, 'maxBodyBytes' | 'replayHeaders' | 'storeBody'>

export async function storedResponse(captured: Captured, keeping: Keeping): Promise<StoredResponse> {
  const { status } = captured
  const body = keeping.storeBody ? await plainBody(captured, keeping.maxBodyBytes) : null
  const names = body === null ? LOCATION_ONLY : keeping.replayHeaders
  const headers = [...captured.headers].filter(([name]) => names.has(name))
  if (body === null) return { status, headers, kept: null, body: '' }
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  return isUtf8(bytes)
    ? { status, headers, kept: 'text', body: bytes.toString('utf8') }
    : { status, headers, kept: 'base64', body: bytes.toString('base64') }
}

/**
 * What was stored, as an answer. Where the body is not there, the place that was pointed to still helps: whoever asks again
 * is sent to it. Everybody else is told that it was done, also where a record was settled by somebody who had no answer,
 * such as an operator.
 */
export function answerOfStored(
  stored: unknown,
  { replayedHeader, describedBy }: Pick<HttpSettings<never>, 'replayedHeader' | 'describedBy'>,
): Answer {
  if (!isStoredResponse(stored)) return problem('idempotency-result-not-replayable', describedBy)
  const { status, kept, body } = stored
  const marker = [replayedHeader, 'true'] as const
  const exposes = [replayedHeader]
  if (kept !== null) {
    const bytes = Buffer.from(body, kept === 'text' ? 'utf8' : 'base64')
    const isEmpty = bytes.byteLength === 0
    return { status, headers: [...stored.headers, marker], body: isEmpty ? null : bytes, exposes }
  }
  const location = stored.headers.find(([name]) => name === 'location')
  if (location !== undefined && status >= 300 && status < 400) {
    const headers = [location, ['cache-control', 'no-store'] as const, marker]
    return { status: 303, headers, body: null, exposes }
  }
  return problem('idempotency-result-not-replayable', describedBy)
}

function isStoredResponse(value: unknown): value is StoredResponse {
  if (typeof value !== 'object' || value === null) return false
  const { status, headers, kept, body } = value as Partial<Record<keyof StoredResponse, unknown>>
  const isStatus = Number.isInteger(status) && Number(status) >= 200 && Number(status) <= 599
  const isKept = kept === null || kept === 'text' || kept === 'base64'
  return isStatus && isKept && typeof body === 'string' && Array.isArray(headers) && headers.every(isHeader)
}

/** A header that a server would refuse to send is none. */
function isHeader(pair: unknown): boolean {
  if (!Array.isArray(pair) || pair.length !== 2) return false
  const [name, value] = pair as readonly unknown[]
  return (
    typeof name === 'string' &&
    HEADER_NAME.test(name) &&
    typeof value === 'string' &&
    HEADER_VALUE.test(value)
  )
}

/** Answers that come bit by bit, for as long as they please. */
export function isEndless(contentType: string | null): boolean {
  return (contentType ?? '').trimStart().toLowerCase().startsWith('text/event-stream')
}

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

const LOCATION_ONLY: ReadonlySet<string> = new Set(['location'])

const DECODERS: Readonly<
  Record<string, (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Buffer>>
> = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  br: promisify(brotliDecompress),
  deflate: promisify(inflate),
}

/** Whoever asks again may not understand the encoding that the first client asked for, so none is kept. */
async function plainBody({ body, headers }: Captured, maxBytes: number): Promise<Uint8Array | null> {
  if (body === null || body.byteLength > maxBytes) return null
  const encoding = headers.get('content-encoding')?.trim().toLowerCase() ?? ''
  if (encoding === '' || encoding === 'identity' || body.byteLength === 0) return body
  const decode = Object.hasOwn(DECODERS, encoding) ? DECODERS[encoding] : undefined
  if (decode === undefined) return null
  return await decode(body, { maxOutputLength: Math.max(1, maxBytes) }).catch(() => null)
}
