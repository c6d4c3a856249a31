/**
 * The line of one resource as the text of one item.
 *
 * Every entry says in ticks when it ends and when it joined. An item with several entries counts them as the server
 * counts dates, and its own expiry is the date at which the last of them ends. So whoever reads the item, together with
 * what is left of it, knows what time it is: the end less what is left. And whoever writes it back takes nothing from an
 * entry and gives nothing to it, however many ticks go by between reading and writing. If lives were written as "so many
 * seconds from now", each tick in between would lengthen them all, and under steady traffic a dead entry would never go.
 *
 * An item with a single entry is written by its owner alone, who has no need to know the time: it counts from when it was
 * written, and `date` is 0.
 */

import type { Claim, Kind, Owner, Shape } from '../../core/backend.js'
import type { Place } from '../../core/line.js'
import { certainMs, isAhead, lastEnd } from './ticks.js'

export type Recipe = 'record' | 'add'

export interface Entry {
  readonly id: string
  readonly weight: number
  readonly endsAt: number
  readonly joinedAt: number
  readonly owner: Owner
  readonly note: string | null
}

export interface StoredLine {
  /** When the item ends, as a date; 0 where its entry counts from when it was written. */
  readonly date: number
  readonly shape: Shape
  readonly entries: readonly Entry[]
  /** The resource, where the key does not tell. */
  readonly name: string | null
}

/** A line as it was read: what time it was then, by the count that the line uses. */
export interface ReadLine extends StoredLine {
  readonly now: number
}

const MARKS: Readonly<Record<Recipe, string>> = {
  record: 'holdfast-record-1 ',
  add: 'holdfast-add-1 ',
}
const KINDS: readonly Kind[] = ['mutex', 'semaphore', 'read-write']

/** In JSON anything may be escaped; without characters beyond ASCII the length in bytes is that in characters. */
// oxlint-disable-next-line no-control-regex -- everything that is not ASCII is looked for
const NOT_ASCII = /[^\u0000-\u007e]/
const NOT_ASCII_ALL = new RegExp(NOT_ASCII.source, 'g')

export function writeLine(recipe: Recipe, { date, shape, entries, name }: StoredLine): string {
  const rows = entries.map(({ id, weight, endsAt, joinedAt, owner, note }) => {
    return [id, weight, endsAt, joinedAt, owner.host, owner.pid, owner.client, note]
  })
  const value: unknown[] = [date, KINDS.indexOf(shape.kind), shape.limit, rows]
  if (name !== null) value.push(name)
  return MARKS[recipe] + ascii(JSON.stringify(value))
}

export function ascii(text: string): string {
  if (!NOT_ASCII.test(text)) return text
  return text.replace(NOT_ASCII_ALL, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Which recipe wrote the text; null where none did. */
export function recipeOf(text: string): Recipe | null {
  return text.startsWith(MARKS.record) ? 'record' : text.startsWith(MARKS.add) ? 'add' : null
}

/** The line in the text, of which `left` ticks were left; null where it is not one, for others may write anything. */
export function readLine(recipe: Recipe, text: string, left: number): ReadLine | null {
  let value: unknown
  try {
    value = JSON.parse(text.slice(MARKS[recipe].length))
  } catch {
    return null
  }
  if (!Array.isArray(value)) return null
  const [date, kindIndex, limit, rows, name = null] = value as unknown[]
  const kind = KINDS[Number(kindIndex)]
  if (!isCount(date) || kind === undefined || !isCount(limit) || limit < 1 || !Array.isArray(rows))
    return null
  const entries = rows.map(readEntry)
  if (entries.length === 0 || !entries.every((entry) => entry !== null)) return null
  if ((name !== null && typeof name !== 'string') || left < 0) return null
  const end = date === 0 ? lastEnd(entries) : date
  return { date, shape: { kind, limit }, entries, name, now: end - left }
}

function readEntry(row: unknown): Entry | null {
  if (!Array.isArray(row)) return null
  const [id, weight, endsAt, joinedAt, host, pid, client, note] = row as unknown[]
  if (typeof id !== 'string' || !isCount(weight) || weight < 1) return null
  if (!isCount(endsAt) || !Number.isSafeInteger(joinedAt)) return null
  if (typeof host !== 'string' || typeof pid !== 'number' || typeof client !== 'string') return null
  if (note !== null && typeof note !== 'string') return null
  return { id, weight, endsAt, joinedAt: joinedAt as number, owner: { host, pid, client }, note }
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** The same line counted in dates, given what date it was when it was read, or a little later. */
export function dated(line: ReadLine, now: number): ReadLine {
  const by = now - line.now
  const entries = line.entries.map((entry) => ({
    ...entry,
    endsAt: entry.endsAt + by,
    joinedAt: entry.joinedAt + by,
  }))
  return { ...line, date: lastEnd(entries), entries, now }
}

/** The entry that a claim gets. */
export function entryFor(claim: Claim, now: number, ticks: number): Entry {
  const { id, weight, owner, note } = claim
  return { id, weight, endsAt: now + ticks, joinedAt: now, owner, note }
}

/** The entries that still count. */
export function liveIn(line: ReadLine): readonly Entry[] {
  return line.entries.filter((entry) => isAhead(entry, line.now))
}

/** As the rule sees an entry: now is 0, and its end is when it can last be relied on. */
export function placeOf(entry: Entry, { shape, now }: Pick<ReadLine, 'shape' | 'now'>): Place {
  const { id, weight, endsAt, joinedAt, owner, note } = entry
  const expiresAt = certainMs(endsAt - now)
  return { id, shape, weight, fence: null, joinedAt: (joinedAt - now) * 1_000, expiresAt, owner, note }
}
