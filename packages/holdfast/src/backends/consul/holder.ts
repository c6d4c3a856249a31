/** What is written beside a lock for people to read: whose it is, since when, and of which name. */

import type { Claim, ClaimView, HolderNote } from '../../core/backend.js'
import { refOf } from '../../core/names.js'
import { wallMs } from '../shared/clock.js'
import { NOBODY_KNOWN, readWho, writeWho } from '../shared/who.js'
import { isObject } from './json.js'
import type { Place } from './keys.js'
import type { Pair } from './kv.js'

/** Every program may write what it likes into its value, so nothing of it is ever more than a text to show. */
interface Written {
  readonly who: HolderNote
  readonly since: number | null
  /** Only where it is not the number of the step that locked the key. */
  readonly fence: bigint | null
  readonly resource: string | null
}

/** `held`: what is kept of a claim that moves to another session. */
export function valueOf(
  { owner, note }: Claim,
  { resource, isHashed }: Place,
  held: { readonly since: number | null; readonly fence?: bigint } = { since: null },
): string {
  const who: unknown = JSON.parse(writeWho(owner, note))
  return JSON.stringify({
    who,
    since: held.since ?? wallMs(),
    ...(held.fence === undefined ? {} : { fence: String(held.fence) }),
    ...(isHashed ? { resource } : {}),
  })
}

export function writtenIn(pair: Pair): Written {
  let value: unknown
  try {
    value = JSON.parse(pair.value)
  } catch {
    // Most programs write nothing at all.
    value = null
  }
  if (!isObject(value)) return { who: unknownHolder(pair), since: null, fence: null, resource: null }
  const who = readWho(JSON.stringify(value['who'] ?? null)) ?? unknownHolder(pair)
  const { since, fence, resource } = value
  return {
    who,
    since: typeof since === 'number' && Number.isFinite(since) ? since : null,
    fence: typeof fence === 'string' && /^\d{1,19}$/.test(fence) ? BigInt(fence) : null,
    resource: typeof resource === 'string' ? resource : null,
  }
}

/** Of a holder that is another program, Consul knows no more than its session. */
function unknownHolder({ session }: Pair): HolderNote {
  return session === null ? NOBODY_KNOWN : { ...NOBODY_KNOWN, note: `Consul session ${session}` }
}

export function viewOf(pair: Pair): ClaimView {
  const { who, since, fence } = writtenIn(pair)
  return {
    ref: refOfPair(pair),
    owner: who.owner,
    note: who.note,
    weight: 1,
    fence: fence ?? pair.modifyIndex,
    ageMs: since === null ? 0 : Math.max(0, wallMs() - since),
    remainingMs: null,
  }
}

export function refOfPair({ key, session, createIndex, lockIndex }: Pair): string {
  return refOf(`${session} ${createIndex} ${lockIndex} ${key}`)
}
