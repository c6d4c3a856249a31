/** Status, message and headers of a response of `node:http`, as they were set and not yet sent. */

import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { contentLengthOf, type HeaderPort } from './answer.js'

export interface Head {
  readonly status: number
  readonly message: string
  readonly headers: OutgoingHttpHeaders
}

export function headerPortOf(response: ServerResponse): HeaderPort {
  return {
    get: (name) => textOf(response.getHeader(name)),
    set: (name, value) => void response.setHeader(name, value),
  }
}

export function headOf(response: ServerResponse): Head {
  return {
    status: response.statusCode,
    message: response.statusMessage,
    headers: { ...response.getHeaders() },
  }
}

/** Only what differs is written: most often nothing does, and headers are not free. */
export function putHead(response: ServerResponse, { status, message, headers }: Head): void {
  response.statusCode = status
  response.statusMessage = message
  const now = response.getHeaders()
  for (const name of Object.keys(now)) if (headers[name] === undefined) response.removeHeader(name)
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && now[name] !== value) response.setHeader(name, value)
  }
}

export function answerHead({ status, headers }: Head): { status: number; headers: Map<string, string> } {
  const texts = new Map<string, string>()
  for (const [name, value] of Object.entries(headers)) texts.set(name.toLowerCase(), textOf(value) ?? '')
  return { status, headers: texts }
}

export function textOf(value: number | string | readonly string[] | undefined): string | null {
  if (value === undefined) return null
  return typeof value === 'object' ? value.join(', ') : String(value)
}

export function typeOf(response: ServerResponse): string | null {
  return textOf(response.getHeader('content-type'))
}

export function lengthOf(response: ServerResponse): number | null {
  return contentLengthOf(textOf(response.getHeader('content-length')))
}

export function* headerPairs(headers: unknown): Generator<[string, string | readonly string[]]> {
  if (typeof headers !== 'object' || headers === null) return
  const list: unknown[] = Array.isArray(headers) ? headers : Object.entries(headers)
  const flat: unknown[] = Array.isArray(list[0]) ? list.flat() : list
  for (let index = 0; index + 1 < flat.length; index += 2) {
    const value = flat[index + 1] as number | string | readonly string[] | undefined
    if (value === undefined) continue
    yield [String(flat[index]), typeof value === 'number' ? String(value) : value]
  }
}
