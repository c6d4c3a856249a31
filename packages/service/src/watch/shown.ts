/** How much of a view is sent. A token that may only acquire decides how many claims there are and how long their notes are. */

import type { ClaimView, Deadlock, ResourceView } from 'holdfast'

/** One lock among others, in lists and events. */
export const VIEW_BYTES_MAX = 64 * 1_024
/** One lock that was asked for by its name. */
export const INSPECT_BYTES_MAX = 256 * 1_024
/** The holders that a refused acquire names. */
export const REFUSAL_BYTES_MAX = 16 * 1_024
/** All deadlocks of one answer or event. */
const DEADLOCKS_BYTES_MAX = 256 * 1_024
/** Of a note in a step of a deadlock. */
const STEP_NOTE_CHARACTERS_MAX = 100

/** What one claim takes as JSON besides its texts: its members, numbers and reference. */
const CLAIM_BYTES = 250
/** Of a character of a text, as JSON in UTF-8. */
const CHARACTER_BYTES_MAX = 3

type Step = Deadlock['cycle'][number]

export interface ShownClaims {
  readonly holders: readonly ClaimView[]
  readonly waiters: readonly ClaimView[]
}

/** The first holders and the first waiters, as many as fit. Each of the two has its first one, and half of the room. */
export function shownClaims({ holders, waiters }: ResourceView, bytesMax: number): ShownClaims {
  const shown = firstOf(waiters, bytesMax / 2)
  const restBytes = bytesMax - shown.bytes
  return { holders: firstOf(holders, restBytes).claims, waiters: shown.claims }
}

export function firstOf(
  claims: readonly ClaimView[],
  bytesMax: number,
): { readonly claims: readonly ClaimView[]; readonly bytes: number } {
  let bytes = 0
  for (const [index, claim] of claims.entries()) {
    const next = bytes + bytesOf(claim)
    if (next > bytesMax && index > 0) return { claims: claims.slice(0, index), bytes }
    bytes = next
  }
  return { claims, bytes }
}

/**
 * Those that fit as a whole: a part of a cycle is none. Short cycles come first, and notes are cut, so that a token with
 * long cycles or long notes does not hide the deadlocks of others.
 */
export function shownDeadlocks(deadlocks: readonly Deadlock[]): readonly Deadlock[] {
  const cut = deadlocks.map(({ certain, cycle }) => ({ certain, cycle: cycle.map(withShortNotes) }))
  const sizes = cut.map(({ cycle }, index) => ({ index, steps: cycle.length, size: sizeOf(cycle) }))
  const shown = new Set<number>()
  let bytes = 0
  for (const { index, size } of sizes.toSorted((a, b) => a.steps - b.steps || a.size - b.size)) {
    if (bytes + size > DEADLOCKS_BYTES_MAX) continue
    bytes += size
    shown.add(index)
  }
  return cut.filter((_deadlock, index) => shown.has(index))
}

function withShortNotes({ waiter, waitsFor, heldBy }: Step): Step {
  return { waiter: withShortNote(waiter), waitsFor, heldBy: withShortNote(heldBy) }
}

/** The whole note is in the view of the lock. */
function withShortNote(claim: ClaimView): ClaimView {
  const { note } = claim
  if (note === null || note.length <= STEP_NOTE_CHARACTERS_MAX) return claim
  // A character has one or two units, and none is cut in two.
  const characters = Array.from(note.slice(0, 2 * STEP_NOTE_CHARACTERS_MAX))
  return { ...claim, note: `${characters.slice(0, STEP_NOTE_CHARACTERS_MAX).join('')}…` }
}

function sizeOf(cycle: readonly Step[]): number {
  let bytes = 0
  for (const { waiter, waitsFor, heldBy } of cycle) {
    bytes += bytesOf(waiter) + bytesOf(heldBy) + waitsFor.length * CHARACTER_BYTES_MAX
  }
  return bytes
}

function bytesOf({ owner, note }: ClaimView): number {
  const characters = owner.host.length + owner.client.length + (note?.length ?? 0)
  return CLAIM_BYTES + characters * CHARACTER_BYTES_MAX
}
