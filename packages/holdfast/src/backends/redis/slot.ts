/** The hash slot of a key, as Redis Cluster counts it: CRC16 (XMODEM) of the key or of its first `{…}` part. */

import type { RedisLink } from './link.js'

const SLOTS = 16_384
const POLYNOMIAL = 0x1021

const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ POLYNOMIAL : crc << 1
  return crc & 0xffff
})

export function slotOf(key: string): number {
  let crc = 0
  for (const byte of Buffer.from(hashedPart(key))) {
    crc = ((crc << 8) ^ (TABLE[((crc >> 8) ^ byte) & 0xff] as number)) & 0xffff
  }
  return crc % SLOTS
}

/** Sorts what is to be sent into what may go together: everything, or in a cluster what lives in one slot. */
export function togetherOn<T>(
  link: Pick<RedisLink, 'isCluster' | 'keyPrefix'>,
  items: readonly T[],
  keyOf: (item: T) => string,
): Iterable<readonly T[]> {
  if (!link.isCluster) return [items]
  const groups = new Map<number, T[]>()
  for (const item of items) {
    const slot = slotOf(link.keyPrefix + keyOf(item))
    const group = groups.get(slot)
    if (group === undefined) groups.set(slot, [item])
    else group.push(item)
  }
  return groups.values()
}

/** Without braces, and with nothing between the first pair, it is the whole key. */
function hashedPart(key: string): string {
  const open = key.indexOf('{')
  if (open < 0) return key
  const close = key.indexOf('}', open + 1)
  return close > open + 1 ? key.slice(open + 1, close) : key
}
