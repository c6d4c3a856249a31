/** What the tests of records in Redis share. */

import { randomBytes } from 'node:crypto'
import type { RedisLink } from '../../src/backends/redis/link.js'
import { openRedisRecords } from '../../src/backends/redis/open-records.js'
import type { ClaimAnswer, ClaimAsk, ClaimRef, RecordStore } from '../../src/core/records.js'
import { afterwards } from './nx-support.js'

export type Claimed = Extract<ClaimAnswer, { readonly kind: 'claimed' }>

export function freshKey(): string {
  return randomBytes(32).toString('hex')
}

export function askOf(changes: Partial<ClaimAsk> = {}): ClaimAsk {
  return {
    key: freshKey(),
    owner: randomBytes(16).toString('hex'),
    fingerprint: `v1:${'a'.repeat(64)}`,
    leaseMs: 30_000,
    retentionMs: 600_000,
    takeOver: true,
    onlyIssued: false,
    ...changes,
  }
}

/** Records that are open, and close with the test. */
export async function recordsAt(url: string): Promise<RecordStore> {
  return await opened(await openRedisRecords(url))
}

export async function opened(store: RecordStore): Promise<RecordStore> {
  afterwards(() => store.close())
  await store.open()
  return store
}

export async function claimIn(store: RecordStore, ask: ClaimAsk): Promise<ClaimRef & { answer: Claimed }> {
  const answer = await store.claim(ask)
  if (answer.kind !== 'claimed') throw new Error(`It was not claimed but ${answer.kind}.`)
  return { key: ask.key, owner: ask.owner, fence: answer.fence, answer }
}

/** A link has its methods on its class, where a copy would not find them. */
export function linkParts(link: RedisLink): RedisLink {
  return {
    isCluster: link.isCluster,
    keyPrefix: link.keyPrefix,
    send: (key, args) => link.send(key, args),
    sendTogether: (key, commands) => link.sendTogether(key, commands),
    masters: () => link.masters(),
    subscribe: (channel, events) => link.subscribe(channel, events),
    close: () => link.close(),
  }
}
