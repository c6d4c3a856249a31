/** Owner and note of a claim as they are stored beside it: written and read by clients, never by a script. */

import type { HolderNote, Owner } from '../../core/backend.js'

/** A JSON array: shorter than an object, and in the store it is only ever looked at whole. */
export function writeWho(owner: Owner, note: string | null): string {
  const { host, pid, client } = owner
  return JSON.stringify(note === null ? [host, pid, client] : [host, pid, client, note])
}

/** null where nothing can be made of it; who holds is for people to see, and must not make a lock fail. */
export function readWho(text: string): HolderNote | null {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  if (!Array.isArray(value)) return null
  const [host, pid, client, note] = value as unknown[]
  if (typeof host !== 'string' || typeof pid !== 'number' || typeof client !== 'string') return null
  return { owner: { host, pid, client }, note: typeof note === 'string' ? note : null }
}

/** Whom to show where the store does not say. */
export const NOBODY_KNOWN: HolderNote = { owner: { host: 'unknown', pid: 0, client: 'unknown' }, note: null }
