// @module-tag exclusion
import { sharedStoreFor } from 'holdfast-servers'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backendOver } from '../../src/backends/postgres/backend.js'
import type { PgClient } from '../../src/backends/postgres/client.js'
import { PostgresLineTable } from '../../src/backends/postgres/line-table.js'
import { pgLink } from '../../src/backends/postgres/link.js'
import type { SqlLink } from '../../src/backends/sql/link.js'
import type { Claim } from '../../src/core/backend.js'
import { claimOf } from '../support/claims.js'
import { SET_TIME, timed } from './timed.js'

const outcome = await sharedStoreFor('postgres')
const PREFIX = 'leaving_'
const CHANNEL = 'leaving_told'

/** One connection with a clock of its own, and the line as it is seen from there. */
class Client {
  readonly pool: pg.Pool
  readonly #link: SqlLink<PgClient>
  readonly #table: PostgresLineTable

  constructor(url: string) {
    this.pool = new pg.Pool({ connectionString: url, max: 1 })
    this.#link = timed(pgLink(this.pool, { prepare: true, end: async () => {} }))
    this.#table = new PostgresLineTable(this.#link, PREFIX)
  }

  async migrate(): Promise<void> {
    await backendOver(this.#link, { tablePrefix: PREFIX, wake: 'poll' }).migrate?.()
  }

  async at(seconds: number): Promise<PostgresLineTable> {
    await this.pool.query(SET_TIME, [1_900_000_000 + seconds])
    return this.#table
  }
}

describe('whoever leaves a line in PostgreSQL', () => {
  if (outcome.kind === 'not run') {
    it.skip(`all of it (not run: ${outcome.reason})`, () => {})
    return
  }
  const clients = [new Client(outcome.store.url), new Client(outcome.store.url)] as const
  const [one, two] = clients
  const ears = new pg.Client({ connectionString: outcome.store.url })
  let told: string[] = []

  beforeAll(async () => {
    await one.migrate()
    await ears.connect()
    ears.on('notification', ({ payload }) => told.push(payload ?? ''))
    await ears.query(`LISTEN ${CHANNEL}`)
  })
  afterAll(async () => {
    await ears.end()
    for (const { pool } of clients) await pool.end()
    await outcome.store.dispose()
  })

  const take = (table: PostgresLineTable, claim: Claim, leaseMs: number) =>
    table.take(claim, { waitMs: 60_000, leaseMs }, { channel: CHANNEL, isNew: false })

  /** Who was told of a grant so far, by their fences: those are sent before the answer to what is asked after them. */
  const granted = async (): Promise<bigint[]> => {
    await ears.query('SELECT 1')
    const fences = told
      .filter((text) => text.startsWith('g '))
      .map((text) => BigInt(text.split(' ')[1] ?? ''))
    told = []
    return fences
  }

  const fenceIn = ({ verdict }: Awaited<ReturnType<typeof take>>): bigint => {
    if (!('fence' in verdict) || verdict.fence === null) throw new Error(`no fence in ${verdict.kind}`)
    return verdict.fence
  }

  it('passes over one that has run out for good, though the clock be set back', async () => {
    const [holder, passedOver, next] = [claimOf('back'), claimOf('back'), claimOf('back')]
    const early = await one.at(0)
    await take(early, holder, 60_000)
    await take(early, passedOver, 1_000)
    const nextFence = fenceIn(await take(early, next, 30_000))
    await granted()
    const late = await one.at(2)
    expect(await late.leave('back', holder.id, null)).toBe(true)
    expect(await granted()).toEqual([nextFence])

    const again = await take(await one.at(0.5), passedOver, 1_000)
    expect(again.verdict.kind).toBe('waiting')
    expect(fenceIn(again)).toBeGreaterThan(nextFence)
  })

  it('counts one that is being renewed at that very moment', async () => {
    const shape = { kind: 'semaphore', limit: 2 } as const
    const [leaver, renewing] = [claimOf('renewed', { shape }), claimOf('renewed', { shape, ttlMs: 1_000 })]
    const both = claimOf('renewed', { shape, weight: 2 })
    const early = await one.at(0)
    await take(early, leaver, 60_000)
    const fence = fenceIn(await take(early, renewing, 1_000))
    const bothFence = fenceIn(await take(early, both, 30_000))
    await granted()

    // It is renewed in time, and its transaction ends only after the other has left.
    await two.pool.query('BEGIN')
    const inTime = await two.at(0.9)
    expect(await inTime.renew([{ claim: renewing, fence, leaseMs: 10_000 }])).toEqual(new Set([0]))
    expect(await (await one.at(1.1)).leave('renewed', leaver.id, null)).toBe(true)
    expect(await granted()).toEqual([])
    await two.pool.query('COMMIT')

    const late = await one.at(1.2)
    expect((await take(late, both, 30_000)).verdict.kind).toBe('waiting')
    expect(await late.leave('renewed', renewing.id, null)).toBe(true)
    expect(await granted()).toEqual([bothFence])
  })
})
