/** Answers that are streamed after the effect, in the ways in which handlers do it. */

import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { LATE_PARTS, type LateWay } from './world.js'

async function* parts(start: Promise<void>): AsyncGenerator<string> {
  await start
  for (const part of LATE_PARTS) {
    await new Promise((resolve) => setImmediate(resolve))
    yield part
  }
}

/** The first byte comes after `start`. */
export async function writeLate(
  response: ServerResponse,
  way: Exclude<LateWay, 'file' | 'nothing'>,
  start: Promise<void>,
): Promise<void> {
  switch (way) {
    case 'pipe':
      Readable.from(parts(start)).pipe(response)
      return
    case 'pipeline':
      return await pipeline(Readable.from(parts(start)), response)
    case 'generator':
      return await pipeline(parts(start), response)
    case 'drain':
      for await (const part of parts(start)) if (!response.write(part)) await once(response, 'drain')
      response.end()
  }
}

/** The same as the body of a `Response`. */
export function lateBody(
  way: LateWay,
  file: string,
  start: Promise<void>,
): ReadableStream<Uint8Array> | null {
  if (way === 'nothing') return null
  const source = way === 'file' ? createReadStream(file) : Readable.from(parts(start), { objectMode: false })
  return Readable.toWeb(source) as ReadableStream<Uint8Array>
}
