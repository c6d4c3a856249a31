/** The table of a line as the recipe `rows` uses it. Each database has its own statements behind it. */

import type { Claim, HolderNote, Kind, Patience, RenewRequest, Verdict } from '../../core/backend.js'
import { BackendUnavailableError, quote } from '../../core/errors.js'
import { LIMIT_MAX, type Place } from '../../core/line.js'
import type { Row } from './link.js'
import { RowReader } from './row-reader.js'

/** What taking a place gave, and whether somebody waits behind it. */
export interface Taken {
  readonly verdict: Verdict
  readonly isWanted: boolean
}

export interface TakeOptions {
  /** Where a grant shall be pushed to; empty where nothing is pushed. */
  readonly channel: string
  /** Whether the claim has, as far as this client knows, no place yet. Only then is an empty line worth a try. */
  readonly isNew: boolean
}

/** A line as it was read, by the server's clock. */
export interface ReadLine {
  readonly live: readonly Place[]
  /** Whether there are rows that no longer count and wait to be removed. */
  readonly hasExpired: boolean
  readonly now: number
}

/** Where a walk over the whole table goes on. */
export interface Position {
  readonly resource: Buffer
  /** What tells the rows of one resource apart. */
  readonly number: string
}

export interface LineTable {
  /** The line rule in one step. */
  take(claim: Claim, patience: Patience, options: TakeOptions): Promise<Taken>
  /** The indexes of the requests whose entries are alive, each extended. */
  renew(requests: readonly RenewRequest[]): Promise<ReadonlySet<number>>
  /** Removes the claim's own entry, wakes those that are admitted now, and says whether it still counted. */
  leave(resource: string, id: string, fence: bigint | null): Promise<boolean>
  /** The line up to a fence, by default all of it. */
  line(resource: string, upTo: bigint | null): Promise<ReadLine>
  /** The names of the next `count` entries, in no order that means anything. null: that was the end. */
  names(
    after: Position | null,
    count: number,
  ): Promise<{ readonly names: readonly string[]; readonly next: Position | null }>
  /** Removes those of the next `count` entries that no longer count. Gives where to go on; null: from the start. */
  sweep(after: Position | null, count: number): Promise<Position | null>
}

const KINDS: ReadonlySet<unknown> = new Set<Kind>(['mutex', 'semaphore', 'read-write'])

export function malformed(backend: string, resource: string | null, what: string): BackendUnavailableError {
  return new BackendUnavailableError(
    `A row that the ${backend} table has for ${quote(resource)} was not written by Holdfast: ${what}. Look at it, and ` +
      'delete it if nobody needs it.',
    { resource, backend },
  )
}

/**
 * The answer of the routine that takes a place. Its columns have the same names on every database. They do not say what the
 * claim weighs, so `weightOf` reads that from the row: null means that the row is gone. A claim of weight 1 cannot weigh less.
 */
export async function readTaken(
  row: Row | undefined,
  claim: Claim,
  backend: string,
  weightOf: (fence: bigint) => Promise<number | null>,
): Promise<Taken> {
  const taken = takenIn(row, claim, backend)
  const { verdict, isWanted } = taken
  if (claim.weight === 1 || (verdict.kind !== 'granted' && verdict.kind !== 'waiting')) return taken
  const weight = await weightOf(verdict.fence as bigint)
  // The claim ended between the two statements, so it neither holds nor waits any more.
  if (weight === null) return { verdict: { kind: 'refused', retryAfterMs: 0, holder: null }, isWanted: false }
  return { verdict: { ...verdict, weight }, isWanted }
}

/** The weight in a row that was read for it. */
export function weightIn(row: Row | undefined, claim: Claim, backend: string): number | null {
  if (row === undefined) return null
  return new RowReader(row, (what) => malformed(backend, claim.resource, what)).integer(
    'weight',
    1,
    LIMIT_MAX,
  )
}

function takenIn(row: Row | undefined, claim: Claim, backend: string): Taken {
  const { weight } = claim
  const reader = new RowReader(row, (what) => malformed(backend, claim.resource, what))
  const isWanted = reader.flag('is_wanted')
  const kind = reader.text('verdict')
  if (kind === 'granted') {
    return { verdict: { kind, fence: fenceIn(reader), leaseMs: msIn(reader, 'lease_us'), weight }, isWanted }
  }
  if (kind === 'mismatched') {
    const shape = {
      kind: reader.oneOf<Kind>('kind', KINDS),
      limit: reader.integer('line_limit', 1, LIMIT_MAX),
    }
    return { verdict: { kind, shape }, isWanted }
  }
  const retryAfterMs = reader.isNull('retry_us') ? null : msIn(reader, 'retry_us')
  const holder = holderIn(reader)
  if (kind === 'refused') return { verdict: { kind, retryAfterMs, holder }, isWanted }
  const ahead = reader.integer('ahead', 0, Number.MAX_SAFE_INTEGER)
  const leaseMs = msIn(reader, 'lease_us')
  return {
    verdict: { kind: 'waiting', fence: fenceIn(reader), leaseMs, weight, ahead, retryAfterMs, holder },
    isWanted,
  }
}

function fenceIn(reader: RowReader): bigint {
  return BigInt(reader.integer('fence', 1, Number.MAX_SAFE_INTEGER))
}

function msIn(reader: RowReader, column: string): number {
  return reader.number(column) / 1_000
}

function holderIn(reader: RowReader): HolderNote | null {
  return reader.isNull('host') ? null : { owner: ownerIn(reader), note: reader.textOrNull('note') }
}

function ownerIn(reader: RowReader): HolderNote['owner'] {
  const pid = reader.integer('pid', 0, Number.MAX_SAFE_INTEGER)
  return { host: reader.text('host'), pid, client: reader.text('client') }
}

/** What of the stored line still counts. An expired row is absent, so it need not make sense otherwise. */
export function readLine(rows: readonly Row[], resource: string, backend: string): ReadLine {
  const live: Place[] = []
  let now = 0
  for (const row of rows) {
    const reader = new RowReader(row, (what) => malformed(backend, resource, what))
    now = msIn(reader, 'now_us')
    const expiresAt = msIn(reader, 'expires_at')
    if (expiresAt > now) live.push(placeIn(reader, expiresAt))
  }
  return { live, hasExpired: live.length < rows.length, now }
}

function placeIn(reader: RowReader, expiresAt: number): Place {
  return {
    id: reader.text('id'),
    shape: { kind: reader.oneOf<Kind>('kind', KINDS), limit: reader.integer('line_limit', 1, LIMIT_MAX) },
    weight: reader.integer('weight', 1, LIMIT_MAX),
    fence: fenceIn(reader),
    joinedAt: msIn(reader, 'joined_at'),
    expiresAt,
    owner: ownerIn(reader),
    note: reader.textOrNull('note'),
  }
}
