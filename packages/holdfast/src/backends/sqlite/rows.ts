/** The rows of the table `places`, read with distrust: another program may have written them. */

import type { Kind } from '../../core/backend.js'
import { isLive, LIMIT_MAX, type Place } from '../../core/line.js'
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
    const reader = new RowReader(row, path, resource)
    if (isLive({ expiresAt: reader.number('expires_at') }, now)) live.push(toPlace(reader))
  }
  return { live, hasExpired: live.length < rows.length }
}

function toPlace(row: RowReader): StoredPlace {
  const place = row.integer('place', 1, Number.MAX_SAFE_INTEGER)
  return {
    id: row.text('id'),
    shape: { kind: row.kind(), limit: row.integer('line_limit', 1, LIMIT_MAX) },
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

/** Takes columns out of one row and checks each. */
export class RowReader {
  readonly #row: object
  readonly #path: string
  readonly #resource: string | null

  constructor(row: unknown, path: string, resource: string | null) {
    if (typeof row !== 'object' || row === null) throw malformedError(path, resource, 'it is missing')
    this.#row = row
    this.#path = path
    this.#resource = resource
  }

  text(column: string): string {
    const value = this.#get(column)
    return typeof value === 'string' ? value : this.#fail(column)
  }

  textOrNull(column: string): string | null {
    return this.#get(column) === null ? null : this.text(column)
  }

  number(column: string): number {
    const value = this.#get(column)
    return typeof value === 'number' && Number.isFinite(value) ? value : this.#fail(column)
  }

  integer(column: string, min: number, max: number): number {
    const value = this.number(column)
    return Number.isSafeInteger(value) && value >= min && value <= max ? value : this.#fail(column)
  }

  kind(): Kind {
    const value = this.#get('kind')
    return KINDS.has(value) ? (value as Kind) : this.#fail('kind')
  }

  #get(column: string): unknown {
    return Reflect.get(this.#row, column)
  }

  #fail(column: string): never {
    throw malformedError(this.#path, this.#resource, `\`${column}\` makes no sense`)
  }
}
