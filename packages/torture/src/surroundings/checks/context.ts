/**
 * Async context: every callback of the library runs in the context of the caller that registered it, whatever makes the
 * library call it, and no context is kept after its caller has ended.
 */

import type { Hold, Locks } from 'holdfast'
import { recordsUrlOf, shortUrlOf } from '../places.js'
import { type Check, type Finding, freshName, type Subject } from '../subject.js'
import { LIMIT_MS, within } from '../waiting.js'
import { callers, electionAndRuns } from './context-callers.js'
import { idempotentCallers } from './context-records.js'
import { sqlCallers } from './context-sql.js'
import { Contexts } from './contexts.js'
import { type Relayed, relayed } from './relayed.js'

/** What the scenarios share. `locks` is judged; `other` is another client of the same store. */
export interface Scene {
  readonly subject: Subject
  readonly contexts: Contexts
  readonly locks: Locks
  readonly other: Locks
  readonly relay: Relayed
}

const MAX_HOLD_MS = 120

export const context: Check = async (subject) => {
  const { library } = subject
  const contexts = new Contexts(library)
  const relay = await relayed(shortUrlOf(subject))
  contexts.watchEvents()
  // A request handler may well be what opens the client.
  const locks = await contexts.as('opener', () => library.holdfast.connect(relay.url))
  const other = await library.holdfast.connect(subject.url)
  const scene: Scene = { subject, contexts, locks, other, relay }
  try {
    await callers(scene)
    await electionAndRuns(scene)
    await lossByMaxHold(scene)
    await lossByEviction(scene)
    await idempotentCallers(scene, recordsUrlOf({ ...subject, url: relay.url }))
    await sqlCallers(scene)
    await lossByCut(scene)
    await contexts.judgeRetained()
  } finally {
    contexts.stopWatching()
    await Promise.allSettled([locks.close(), other.close()])
    await relay.dispose()
  }
  return summed(contexts.findings)
}

/** The timer that ends the hold of one caller is started by another one. */
async function lossByMaxHold({ contexts, locks, subject }: Scene): Promise<void> {
  const lost = contexts.as('caller with maxHoldMs', async (me) => {
    const hold = await locks.mutex(freshName('max'), { maxHoldMs: MAX_HOLD_MS }).acquire()
    await heard(contexts, me, 'maxHoldMs', hold)
  })
  await contexts.as('caller with a short lease', async () => {
    const hold = await locks.mutex(freshName('short'), { ttlMs: subject.ttlMs, renew: false }).acquire()
    await lost
    await hold.release()
  })
}

/** An operator takes two holds away, in the context of the operator. */
async function lossByEviction({ contexts, locks, other, subject: { ttlMs } }: Scene): Promise<void> {
  const names = [freshName('evicted'), freshName('evicted')]
  const acquired: Promise<void>[] = []
  const lost = names.map((name) =>
    contexts.as('evicted caller', async (me) => {
      const acquiring = locks.mutex(name, { ttlMs }).acquire()
      acquired.push(acquiring.then(() => {}))
      const hold = await acquiring
      await heard(contexts, me, 'eviction', hold)
    }),
  )
  await Promise.all(acquired)
  await contexts.as('operator', async () => {
    const [first = '', second = ''] = names
    await other.evict(first, { reason: 'a check' })
    // Where all locks of a client are on one connection, the first eviction has ended it, and the second may fail.
    await locks.evict(second, { reason: 'a check' }).catch(() => other.evict(second, { reason: 'a check' }))
  })
  await Promise.all(lost)
}

/** The network ends every connection, so that leases end; afterwards the client connects again. */
async function lossByCut({ contexts, locks, relay, subject }: Scene): Promise<void> {
  if (!relay.isRemote) return
  const acquired: Promise<void>[] = []
  const lost = Array.from({ length: subject.sizes.callers }, () =>
    contexts.as('caller that is cut off', async (me) => {
      const acquiring = locks.mutex(freshName('cut'), { ttlMs: subject.ttlMs }).acquire()
      acquired.push(acquiring.then(() => {}))
      await heard(contexts, me, 'a cut connection', await acquiring)
    }),
  )
  await Promise.all(acquired)
  relay.cut()
  await Promise.all(lost)
  relay.restore()
  await contexts.as('caller after the cut', async (me) => {
    const hold = await locks.mutex(freshName('again')).acquire({ waitMs: LIMIT_MS })
    contexts.expect(me, 'acquire() after a reconnect')
    await hold.release()
  })
}

async function heard(contexts: Contexts, me: string, why: string, hold: Hold): Promise<void> {
  const aborted = contexts.onAbort(me, why, hold.signal).then(() => true)
  if ((await within(aborted, 2 * LIMIT_MS)) === null) {
    contexts.findings.push({ what: `abort listener, ${why}`, message: 'was never called' })
  }
  await hold.release()
}

/** Findings that differ only in the numbers of callers and names are one. */
function summed(findings: readonly Finding[]): readonly Finding[] {
  const counted = new Map<string, { readonly finding: Finding; count: number }>()
  for (const finding of findings) {
    const key = `${finding.what} ${finding.message}`.replaceAll(/#?\d+/g, '')
    const known = counted.get(key)
    if (known === undefined) counted.set(key, { finding, count: 1 })
    else known.count += 1
  }
  return [...counted.values()].map(({ finding: { what, message }, count }) => ({
    what,
    message: count === 1 ? message : `${message} (${count} times)`,
  }))
}
