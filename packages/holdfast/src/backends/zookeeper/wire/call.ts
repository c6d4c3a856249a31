/** What is sent on a connection, and how its answer is read. */

import { ZooKeeperError } from './errors.js'
import { type JuteReader, JuteWriter } from './jute.js'

/** One request. `answered` runs as soon as the answer is read and before anything that came behind it. */
export interface Call<T> {
  readonly name: string
  readonly opcode: number
  /** For messages. */
  readonly path: string | null
  write(writer: JuteWriter): void
  read(reader: JuteReader): T
  answered?(code: number): void
}

export interface Credential {
  readonly scheme: string
  readonly credential: string
}

/** Throws BAD_ARGUMENTS if there is no such frame. */
export function frameOf(call: Call<unknown>, xid: number, bytesMax: number): Buffer {
  const writer = new JuteWriter().int(xid).int(call.opcode)
  const { path } = call
  try {
    call.write(writer)
  } catch (cause) {
    // A number that does not fit, for example.
    throw new ZooKeeperError('BAD_ARGUMENTS', `The ${call.name} cannot be written down.`, { path, cause })
  }
  const frame = writer.frame()
  if (frame.length <= bytesMax) return frame
  const text = `The ${call.name} has ${frame.length} bytes, and ${bytesMax} is the most.`
  throw new ZooKeeperError('BAD_ARGUMENTS', text, { path })
}
