/** The words of four letters that a server answers on a connection of their own, each for itself. */

import type { HostAndPort } from '../../../core/address.js'
import { within } from '../../shared/clock.js'
import { openSocket } from '../wire/socket.js'
import type { TlsSettings } from '../wire/zookeeper.js'

const ANSWER_MS = 5_000
const ANSWER_BYTES_MAX = 256 * 1_024

/** null: nobody answers there. A server that does not allow the word says so in its answer. */
export async function wordOf(
  word: string,
  host: HostAndPort,
  tls: TlsSettings | undefined,
): Promise<string | null> {
  const socket = openSocket(host, tls, () => socket.write(word))
  const answer = new Promise<string | null>((resolve) => {
    let text = ''
    socket.setEncoding('utf8')
    socket.on('data', (chunk: string) => {
      text += chunk
      if (text.length > ANSWER_BYTES_MAX) socket.destroy()
    })
    socket.once('error', () => resolve(null))
    socket.once('close', () => resolve(text))
  })
  try {
    return await within(ANSWER_MS, answer, () => new Error('No answer in time.'))
  } catch {
    return null
  } finally {
    socket.destroy()
  }
}
