import type { Kind } from './contract.js'
import { ageMs, isExpiring, leftMs } from './lease.js'
import type { Row } from './rows.js'
import { ownerText } from './words.js'

export interface Filter {
  readonly text: string
  readonly kind: Kind | 'all'
  readonly contended: boolean
  readonly expiring: boolean
}

export const NO_FILTER: Filter = { text: '', kind: 'all', contended: false, expiring: false }

export type Column = 'name' | 'kind' | 'holder' | 'age' | 'left' | 'fence' | 'waiters' | 'note'

export interface Order {
  readonly column: Column
  readonly descending: boolean
}

export const BY_NAME: Order = { column: 'name', descending: false }

/** The rows that match. Every word of the text must be somewhere in the row. */
export function filtered(rows: readonly Row[], filter: Filter, now: number): readonly Row[] {
  if (filter === NO_FILTER) return rows
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean)
  return rows.filter((row) => matches(row, words, filter, now))
}

function matches(row: Row, words: readonly string[], filter: Filter, now: number): boolean {
  if (filter.kind !== 'all' && row.view.shape?.kind !== filter.kind) return false
  if (filter.contended && row.waiters.length === 0) return false
  if (filter.expiring && !row.holders.some(({ lease }) => isExpiring(lease, now))) return false
  return words.every((word) => row.text.includes(word))
}

/** Each row's key is made once and not for every comparison. What has no key comes last, whichever way it goes. */
export function sorted(rows: Iterable<Row>, order: Order, now: number): readonly Row[] {
  const keyed = Array.from(rows, (row) => ({ row, key: keyOf(row, order.column, now) }))
  const sign = order.descending ? -1 : 1
  keyed.sort((a, b) => {
    if (a.key === b.key) return compare(a.row.name, b.row.name)
    if (a.key === null) return 1
    if (b.key === null) return -1
    return sign * compare(a.key, b.key) || compare(a.row.name, b.row.name)
  })
  return keyed.map(({ row }) => row)
}

type Key = string | number | bigint | null

function compare(a: Exclude<Key, null>, b: Exclude<Key, null>): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function keyOf(row: Row, column: Column, now: number): Key {
  const first = row.holders[0]
  switch (column) {
    case 'name':
      return row.name
    case 'kind':
      return row.view.shape?.kind ?? null
    case 'holder':
      return first === undefined ? null : ownerText(first.claim.owner).toLowerCase()
    case 'age':
      return first === undefined ? null : Math.max(...row.holders.map(({ lease }) => ageMs(lease, now)))
    case 'left':
      return soonest(row, now)
    case 'fence':
      return first === undefined || first.claim.fence === null ? null : BigInt(first.claim.fence)
    case 'waiters':
      return row.waitersTotal
    case 'note':
      return first?.claim.note?.toLowerCase() ?? null
  }
}

function soonest(row: Row, now: number): number | null {
  const times = row.holders.map(({ lease }) => leftMs(lease, now)).filter((left) => left !== null)
  return times.length === 0 ? null : Math.min(...times)
}
