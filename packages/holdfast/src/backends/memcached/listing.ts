/**
 * The keys of a server, as its LRU crawler tells them: over a connection of its own, because the answer can be long. It
 * goes through everything that the server has stored, so it is for operators, and not for the way of a lock.
 */

import type { Socket } from 'node:net'
import { jitteredPause, within } from '../shared/clock.js'
import type { MemcachedClient } from './client.js'
import { cannotList, listingFailed, unanswered } from './errors.js'

const DUMP_MS = 30_000
const DUMP_BYTES_MAX = 256 * 1024 * 1024
const KEYS_MAX = 1_000_000
/** One crawl at a time is all that the server does. */
const TRIES = 20
const BUSY_MS = 250

/** The keys with one byte in each character. `isWanted` keeps those of other programs from piling up here. */
export async function listKeys(
  client: MemcachedClient,
  isWanted: (key: string) => boolean,
): Promise<readonly string[]> {
  for (let tries = 1; ; tries += 1) {
    const keys = await dump(client, isWanted)
    if (keys !== 'busy') return keys
    if (tries === TRIES) throw listingFailed('others had its LRU crawler at work all the time')
    await jitteredPause(BUSY_MS)
  }
}

async function dump(
  client: MemcachedClient,
  isWanted: (key: string) => boolean,
): Promise<readonly string[] | 'busy'> {
  const socket = await client.another()
  try {
    const keys = gather(socket, isWanted)
    socket.write('lru_crawler metadump all\r\n')
    return await within(DUMP_MS, keys, () => listingFailed(`it took longer than ${DUMP_MS} ms`))
  } finally {
    socket.destroy()
  }
}

function gather(socket: Socket, isWanted: (key: string) => boolean): Promise<readonly string[] | 'busy'> {
  return new Promise((resolve, reject) => {
    const keys: string[] = []
    let rest = ''
    let bytes = 0
    const take = (line: string): boolean => {
      if (line === 'END') resolve(keys)
      else if (line.startsWith('BUSY')) resolve('busy')
      else if (line.startsWith('ERROR') || line.startsWith('CLIENT_ERROR')) reject(cannotList(line))
      else {
        const key = keyIn(line)
        if (key !== null && isWanted(key)) keys.push(key)
        if (keys.length <= KEYS_MAX) return true
        reject(listingFailed(`there are more than ${KEYS_MAX}`))
      }
      return false
    }
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > DUMP_BYTES_MAX) reject(listingFailed('there are too many'))
      const lines = (rest + chunk.toString('latin1')).split(/\r?\n/)
      rest = lines.pop() ?? ''
      for (const line of lines) if (!take(line)) return
    })
    socket.on('error', (error) => reject(unanswered(error)))
    socket.on('close', () => reject(unanswered(null)))
  })
}

/** `key=a%3Ab exp=… la=… cas=…`: escaped byte by byte, as in a URL. */
function keyIn(line: string): string | null {
  const escaped = /^key=(\S{1,750})(?: |$)/.exec(line)?.[1]
  if (escaped === undefined) return null
  return escaped.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
}
