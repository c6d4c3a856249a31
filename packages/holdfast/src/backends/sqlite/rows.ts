/** The rows of the table `places`, read with distrust: another program may have written them. */

import type { Kind } from '../../core/backend.js'
import { isLive, LIMIT_MAX, type Place } from '../../core/line.js'
import { RowReader } from '../sql/row-reader.js'
import { malformedError } from './errors.js'

const KINDS: ReadonlySet<unknown> = new Set<Kind>(['mutex', 'semaphore', 'read-write'])

/** A place with the number it is stored under. The number is the fence. */
export interface StoredPlace extends Place {
  readonly fence: bigint
  readonly place: number
}

export interface ReadLine {
  readonly live: readonly StoredPlace[]
  /** Whether there are rows that no longer count and wait to be removed. */
  readonly hasExpired: boolean
}

/**
 * What of the stored line still counts at `now`. An expired row is absent, so it need not make sense
 * otherwise.
 */
export function readLine(rows: readonly unknown[], now: number, path: string, resource: string): ReadLine {
  const live: StoredPlace[] = []
  for (const row of rows) {
    const reader = rowOf(row, path, resource)
    if (isLive({ expiresAt: reader.number('expires_at') }, now)) live.push(toPlace(reader))
  }
  return { live, hasExpired: live.length < rows.length }
}

function toPlace(row: RowReader): StoredPlace {
  const place = row.integer('place', 1, Number.MAX_SAFE_INTEGER)
  return {
    id: row.text('id'),
    shape: { kind: row.oneOf<Kind>('kind', KINDS), limit: row.integer('line_limit', 1, LIMIT_MAX) },
    weight: row.integer('weight', 1, LIMIT_MAX),
    place,
    fence: BigInt(place),
    joinedAt: row.number('joined_at'),
    expiresAt: row.number('expires_at'),
    owner: {
      host: row.text('host'),
      pid: row.integer('pid', 0, Number.MAX_SAFE_INTEGER),
      client: row.text('client'),
    },
    note: row.textOrNull('note'),
  }
}

/** Reads one row; what makes no sense in it is told with the file it is in. */
export function rowOf(row: unknown, path: string, resource: string | null): RowReader {
  return new RowReader(row, (what) => malformedError(path, resource, what))
}
