/** Readers that never release, because their process died or their fixed lease simply ended, while no writer comes. */

import { type Finding, freshName, type Subject } from '../subject.js'
import { came, codeOf } from '../waiting.js'
import type { Workplace } from './memory-work.js'

/** Redis reads a queue as a whole only from some length on, so it needs more readers than the others. */
const READERS = { redis: 60, others: 6 } as const
const LEASE_MS = 2_000
/** What belongs to a connection is bounded by the pool, and fills up slowly. */
export const OF_CONNECTIONS = /connections|prepared statements|watches/
const ROUNDS = 3

/** The bytes that the store has for the name are the same after every round. */
export async function abandonedReaders(
  { probe, store }: Subject,
  { locks }: Workplace,
): Promise<readonly Finding[]> {
  const { weights, ttlMinMs, shows } = locks.guarantees
  if (weights !== 'any' || shows !== 'claims') return []
  const name = freshName('readers')
  const lock = locks.readWrite(name)
  const seen: (readonly [string, number][])[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    const fixed = { renew: false, ttlMs: Math.max(ttlMinMs, LEASE_MS) }
    const length = store === 'redis' ? READERS.redis : READERS.others
    await Promise.all(Array.from({ length }, () => lock.read().tryAcquire(fixed).catch(leaveUnknown)))
    const areOver = await came(async () => (await locks.inspect(name)).holders.length === 0)
    if (!areOver)
      return [{ what: 'readers with a fixed lease', message: 'still hold the lock after their lease' }]
    // The next reader is what tidies up; there is no writer that would.
    await (await lock.read().acquire()).release()
    seen.push(Object.entries(await probe()).filter(([what]) => !OF_CONNECTIONS.test(what)))
  }
  const first = new Map(seen[0])
  return (seen.at(-1) ?? []).flatMap(([what, count]) => {
    const counts = seen.map((entries) => new Map(entries).get(what) ?? 0)
    const isGrowing = counts.every((each, index) => index === 0 || each > (counts[index - 1] ?? 0))
    if (!isGrowing || count === first.get(what)) return []
    return [{ what, message: `grows with readers whose lease has ended and no writer: ${counts.join(', ')}` }]
  })
}

/** A reader whose request was not answered in time is one that never releases, too. */
function leaveUnknown(error: unknown): null {
  if (codeOf(error) === 'OUTCOME_UNKNOWN') return null
  throw error
}
