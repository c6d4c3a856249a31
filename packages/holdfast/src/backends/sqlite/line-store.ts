/**
 * What the backend does to the table `places`. Every function is synchronous and runs inside one transaction.
 */

import type { Claim } from '../../core/backend.js'
import type { Sql } from './connection.js'
import { malformedError } from './errors.js'
import { type ReadLine, readLine, rowOf, type StoredPlace } from './rows.js'

const PEEK = `SELECT fence, EXISTS (SELECT 1 FROM places WHERE resource = ?) AS taken FROM meta WHERE one = 1`
const LINE = `SELECT place, id, kind, line_limit, weight, joined_at, expires_at, host, pid, client, note
  FROM places WHERE resource = ? AND place <= ? ORDER BY place`
const JOIN = `INSERT INTO places (resource, place, id, kind, line_limit, weight, joined_at, expires_at, host,
  pid, client, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
const STAND = `UPDATE places SET weight = ?, expires_at = ? WHERE resource = ? AND place = ?`
const LEAVE = `DELETE FROM places WHERE resource = ? AND place = ?`
const LEAVE_PLACE = `DELETE FROM places WHERE resource = ? AND place = ? AND id = ? AND expires_at > ?`
const LEAVE_LIVE = `DELETE FROM places WHERE resource = ? AND id = ? AND expires_at > ?`
const LEAVE_DEAD = `DELETE FROM places WHERE resource = ? AND id = ?`
const CLEAR = `DELETE FROM places WHERE resource = ? AND expires_at <= ?`
const FIND_AT = `SELECT place, expires_at FROM places WHERE resource = ? AND place = ? AND id = ?`
const RENEW = `UPDATE places SET expires_at = ? WHERE resource = ? AND place = ?`
const NAMES_FROM = `SELECT DISTINCT resource FROM places WHERE resource >= ? ORDER BY resource LIMIT ?`
const NAMES_AFTER = `SELECT DISTINCT resource FROM places WHERE resource > ? ORDER BY resource LIMIT ?`
const SWEEP = `SELECT resource, place, expires_at FROM places WHERE (resource, place) > (?, ?)
  ORDER BY resource, place LIMIT ?`

const FENCE_MAX = Number.MAX_SAFE_INTEGER

export class LineStore {
  readonly #path: string
  /** Where the next sweep goes on. */
  #sweptTo: readonly [resource: string, place: number] = ['', 0]

  constructor(path: string) {
    this.#path = path
  }

  /**
   * The last fence given out, and whether the resource has any row at all: mostly not, which saves reading
   * it.
   */
  peek(sql: Sql, resource: string): { readonly fence: number; readonly taken: boolean } {
    const row = rowOf(sql(PEEK).get(resource), this.#path, null)
    return { fence: row.integer('fence', 0, FENCE_MAX - 1), taken: row.number('taken') !== 0 }
  }

  /** The line up to a place, by default all of it. */
  line(sql: Sql, resource: string, now: number, upTo = FENCE_MAX): ReadLine {
    return readLine(sql(LINE).all(resource, upTo), now, this.#path, resource)
  }

  /** Removes the rows of the resource that no longer count. */
  clear(sql: Sql, resource: string, now: number): void {
    sql(CLEAR).run(resource, now)
  }

  join(sql: Sql, claim: Claim, place: number, now: number, leaseMs: number): void {
    const { id, resource, shape, weight, owner, note } = claim
    sql(JOIN).run(
      resource,
      place,
      id,
      shape.kind,
      shape.limit,
      weight,
      now,
      now + leaseMs,
      owner.host,
      owner.pid,
      owner.client,
      note,
    )
  }

  stand(sql: Sql, resource: string, place: number, weight: number, expiresAt: number): void {
    sql(STAND).run(weight, expiresAt, resource, place)
  }

  remove(sql: Sql, resource: string, place: number): void {
    sql(LEAVE).run(resource, place)
  }

  /**
   * Removes the claim's own entry, and says whether it still counted. By its place it is found at once; searching for the
   * id reads the whole queue.
   */
  leave(sql: Sql, claim: Claim, place: number | undefined, now: number): boolean {
    if (place !== undefined) {
      const { changes } = sql(LEAVE_PLACE).run(claim.resource, place, claim.id, now)
      if (Number(changes) > 0) return true
    }
    if (Number(sql(LEAVE_LIVE).run(claim.resource, claim.id, now).changes) > 0) return true
    sql(LEAVE_DEAD).run(claim.resource, claim.id)
    return false
  }

  /** The claim's entry at one place. */
  findAt(sql: Sql, claim: Claim, at: number): Pick<StoredPlace, 'place' | 'fence' | 'expiresAt'> | undefined {
    const found = sql(FIND_AT).get(claim.resource, at, claim.id)
    if (found === undefined) return undefined
    const row = rowOf(found, this.#path, claim.resource)
    const place = row.integer('place', 1, FENCE_MAX)
    return { place, fence: BigInt(place), expiresAt: row.number('expires_at') }
  }

  renew(sql: Sql, resource: string, place: number, expiresAt: number): void {
    sql(RENEW).run(expiresAt, resource, place)
  }

  /**
   * Up to `count` names, in the order of their UTF-8 bytes, from the first that is not below `prefix`, or
   * from the one after `last`. The names with a prefix lie side by side in that order, so no pattern is
   * needed, nor its escapes.
   */
  names(sql: Sql, prefix: string, last: string | null, count: number): readonly string[] {
    const rows = last === null ? sql(NAMES_FROM).all(prefix, count) : sql(NAMES_AFTER).all(last, count)
    const names = rows.map((row) => rowOf(row, this.#path, null).text('resource'))
    // A name that is not UTF-8 reads differently from what is stored, and would come again and again.
    if (last !== null && names.includes(last)) throw malformedError(this.#path, last, 'its name is not UTF-8')
    return names
  }

  /**
   * Looks at the next `count` rows of the whole table and removes those that no longer count, so that what
   * crashed holders left under names that nobody uses again does not pile up. Returns whether the end was
   * reached.
   */
  sweep(sql: Sql, now: number, count: number): boolean {
    const rows = sql(SWEEP).all(...this.#sweptTo, count)
    for (const found of rows) {
      const row = rowOf(found, this.#path, null)
      const resource = row.text('resource')
      const place = row.integer('place', Number.MIN_SAFE_INTEGER, FENCE_MAX)
      if (row.number('expires_at') <= now) this.remove(sql, resource, place)
      this.#sweptTo = [resource, place]
    }
    const done = rows.length < count
    if (done) this.#sweptTo = ['', 0]
    return done
  }
}
