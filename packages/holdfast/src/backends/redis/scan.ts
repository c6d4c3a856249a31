import { redisError } from './errors.js'
import type { RedisLink, RedisNode } from './link.js'

const COUNT = '1000'

/** Types of keys that locks have. Records of idempotency, under the same prefix, are hashes. */
export type LockType = 'string' | 'zset'

/**
 * The names of all keys of these types that begin with both prefixes, in the order of their UTF-8 bytes, each once. A key
 * that changes its type between two scans can be missed.
 */
export async function scanNames(
  link: RedisLink,
  keyPrefix: string,
  namePrefix: string,
  types: readonly LockType[],
): Promise<readonly string[]> {
  const before = link.keyPrefix + keyPrefix
  const pattern = `${escapeGlob(before + namePrefix)}*`
  try {
    const names = new Set<string>()
    for (const node of await link.masters()) {
      for (const type of types) {
        for await (const key of keysOf(node, pattern, type)) names.add(key.slice(before.length))
      }
    }
    return inOrderOfBytes(names)
  } catch (error) {
    throw redisError(error)
  }
}

/** In the order of their UTF-8 bytes, which is not that of the strings beyond the basic plane. */
export function inOrderOfBytes(names: Iterable<string>): readonly string[] {
  const withBytes = [...names].map((name) => ({ name, bytes: Buffer.from(name) }))
  return withBytes.toSorted((a, b) => Buffer.compare(a.bytes, b.bytes)).map(({ name }) => name)
}

async function* keysOf(node: RedisNode, pattern: string, type: LockType): AsyncGenerator<string> {
  let cursor = '0'
  do {
    const answer = await node.send(['SCAN', cursor, 'MATCH', pattern, 'COUNT', COUNT, 'TYPE', type])
    const [next, keys] = answer as [unknown, unknown[]]
    for (const key of keys) yield String(key)
    cursor = String(next)
  } while (cursor !== '0')
}

/** What means something in a pattern of Redis stands for itself. */
export function escapeGlob(text: string): string {
  return text.replace(/[\\*?[\]^-]/g, '\\$&')
}
