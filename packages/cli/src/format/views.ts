/** How resources and claims are shown. Pure: everything from outside is escaped here, once. */

import {
  type ClaimView,
  type Deadlock,
  describeDeadlock,
  type HolderNote,
  type ResourceView,
  type Shape,
} from 'holdfast'
import { formatDuration } from './duration.js'
import { escapeText } from './escape.js'
import { type Column, layOutTable } from './table.js'

const NOTHING = '-'

/** Names are quoted in sentences, so that a space at their end or a quote inside them is seen. */
export function quoteName(name: string): string {
  return escapeText(JSON.stringify(name))
}

/** `host:pid (note)`, the way every message of the command names somebody. */
export function describeOwner({ owner, note }: HolderNote): string {
  const who = `${escapeText(owner.host)}:${owner.pid}`
  return note === null || note === '' ? who : `${who} (${escapeText(note)})`
}

export function describeKind(shape: Shape | null): string {
  if (shape === null) return NOTHING
  return shape.kind === 'semaphore' ? `semaphore of ${shape.limit}` : shape.kind
}

/** What a claim takes of its resource: a reader, a writer, or a number of permits. */
export function describeShare(shape: Shape | null, claim: ClaimView): string {
  switch (shape?.kind) {
    case 'read-write':
      return claim.weight === shape.limit ? 'write' : 'read'
    case 'semaphore':
      return `${claim.weight} of ${shape.limit}`
    case 'mutex':
    case undefined:
      return NOTHING
  }
}

function describeRemaining(claim: ClaimView | undefined): string {
  if (claim === undefined) return NOTHING
  return claim.remainingMs === null ? 'session' : formatDuration(claim.remainingMs)
}

const LIST_COLUMNS: readonly Column[] = [
  { heading: 'NAME', shrinks: true },
  { heading: 'KIND' },
  { heading: 'HOLDERS', align: 'right' },
  { heading: 'WAITERS', align: 'right' },
  { heading: 'FIRST HOLDER', shrinks: true },
  { heading: 'AGE', align: 'right' },
  { heading: 'LEFT', align: 'right' },
]

/** One line for each resource, under a line of headings. */
export function listLines(views: readonly ResourceView[], maxWidth?: number): string[] {
  const rows = views.map((view) => {
    const first = view.holders[0]
    return [
      escapeText(view.resource),
      describeKind(view.shape),
      String(holdersOf(view)),
      String(waitersOf(view)),
      first === undefined ? NOTHING : describeOwner({ owner: first.owner, note: null }),
      first === undefined ? NOTHING : formatDuration(first.ageMs),
      describeRemaining(first),
    ]
  })
  return layOutTable(LIST_COLUMNS, rows, maxWidth)
}

/** The number of holders, shown or not. */
export function holdersOf({ holders, holdersTotal }: ResourceView): number {
  return holdersTotal ?? holders.length
}

/** The number of waiters, shown or not. */
function waitersOf({ waiters, waitersTotal }: ResourceView): number {
  return waitersTotal ?? waiters.length
}

/** How many claims the view leaves out. */
export function hiddenOf(view: ResourceView): number {
  return holdersOf(view) + waitersOf(view) - view.holders.length - view.waiters.length
}

const CLAIM_COLUMNS: readonly Column[] = [
  { heading: 'PLACE' },
  { heading: 'HOST', shrinks: true },
  { heading: 'PID', align: 'right' },
  { heading: 'SINCE', align: 'right' },
  { heading: 'LEFT', align: 'right' },
  { heading: 'FENCE', align: 'right' },
  { heading: 'SHARE' },
  { heading: 'REF' },
  { heading: 'NOTE', shrinks: true },
]

/** Everything about one resource: a line that sums it up, then its holders and its waiters in order. */
export function resourceLines(view: ResourceView, maxWidth?: number): string[] {
  const name = quoteName(view.resource)
  if (view.shape === null) return [`${name} is free: nobody holds it or waits for it.`]
  const { holders, waiters } = view
  const hidden = hiddenOf(view)
  const part = hidden === 0 ? '' : ` (${count(hidden, 'claim')} not shown)`
  const counts = `${count(holdersOf(view), 'holder')}, ${count(waitersOf(view), 'waiter')}${part}`
  const summary = `${name}  ${describeKind(view.shape)}, ${counts}`
  const rows = [
    ...holders.map((claim) => claimCells('holds', claim, view.shape)),
    ...waiters.map((claim, index) => claimCells(`waits ${index + 1}`, claim, view.shape)),
  ]
  // Everybody who holds a mutex holds all of it.
  const shared = view.shape.kind !== 'mutex'
  const shown = (_: unknown, index: number): boolean => shared || CLAIM_COLUMNS[index]?.heading !== 'SHARE'
  const cells = rows.map((row) => row.filter(shown))
  return [summary, '', ...layOutTable(CLAIM_COLUMNS.filter(shown), cells, maxWidth)]
}

function claimCells(place: string, claim: ClaimView, shape: Shape | null): string[] {
  return [
    place,
    escapeText(claim.owner.host),
    String(claim.owner.pid),
    formatDuration(claim.ageMs),
    describeRemaining(claim),
    claim.fence === null ? NOTHING : String(claim.fence),
    describeShare(shape, claim),
    escapeText(claim.ref),
    claim.note === null ? '' : escapeText(claim.note),
  ]
}

/** One line for each deadlock. */
export function deadlockLines(deadlocks: readonly Deadlock[]): string[] {
  return deadlocks.map((deadlock) => {
    const word = deadlock.certain ? 'deadlock' : 'possible deadlock'
    return `${word}: ${escapeText(describeDeadlock(deadlock))}`
  })
}

/** `1 holder`, `2 holders`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}

/** Changes when somebody comes, goes or is admitted, and not merely because time passes. */
export function standingsKey(view: ResourceView): string {
  const entries = (claims: readonly ClaimView[]): string[] =>
    claims.map((claim) => `${claim.ref} ${claim.fence} ${claim.weight}`)
  return JSON.stringify([view.shape, entries(view.holders), entries(view.waiters)])
}

/** JSON has no whole numbers beyond 2^53, so fences are texts. Unsafe characters are escaped the JSON way. */
export function toJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, plainNumbers, indent)
  return text.replace(/[\u007f-\u{10ffff}]/gu, (char) =>
    escapeText(char) === char ? char : jsonEscape(char),
  )
}

/** Fractions of a millisecond are noise of the clock. */
function plainNumbers(key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  return typeof value === 'number' && key.endsWith('Ms') ? Math.round(value) : value
}

function jsonEscape(char: string): string {
  return [...Array(char.length).keys()]
    .map((index) => `\\u${char.charCodeAt(index).toString(16).padStart(4, '0')}`)
    .join('')
}
