/** What is special to records in databases: levels of isolation, counts of rows, collations, rows that come and go. */

import { randomBytes } from 'node:crypto'
import { storeFor } from 'holdfast-servers'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { afterAll, describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { mysqlLink } from '../../src/backends/mysql/link.js'
import { recordsOver as mysqlRecordsOver } from '../../src/backends/mysql/records.js'
import { pgLink } from '../../src/backends/postgres/link.js'
import { recordsOver as postgresRecordsOver } from '../../src/backends/postgres/records.js'
import type { SqlLink } from '../../src/backends/sql/link.js'
import { DeadlockError, InvalidInputError, UnsupportedError } from '../../src/core/errors.js'
import type { ClaimAnswer, ClaimAsk, RecordStore } from '../../src/core/records.js'
import { playsByTheRule } from '../records/random-histories.js'

type Server = 'postgres' | 'mariadb' | 'mysql'
const SERVERS: readonly Server[] = ['postgres', 'mariadb', 'mysql']

const freshKey = (): string => randomBytes(32).toString('hex')
const freshTable = (): string => `t${randomBytes(5).toString('hex')}`
const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

function askOf(changes: Partial<ClaimAsk> = {}): ClaimAsk {
  const owner = randomBytes(16).toString('hex')
  const times = { leaseMs: 60_000, retentionMs: 3_600_000 }
  return {
    key: freshKey(),
    owner,
    fingerprint: null,
    ...times,
    takeOver: true,
    onlyIssued: false,
    ...changes,
  }
}

function claimedOf(answer: ClaimAnswer): Extract<ClaimAnswer, { kind: 'claimed' }> {
  if (answer.kind !== 'claimed') throw new Error(`Expected a claim, got ${answer.kind}.`)
  return answer
}

interface StoreOptions {
  readonly table?: string
  /** What each connection is told first. */
  readonly session?: string
  readonly mysql?: mysql.PoolOptions
  readonly change?: (text: string) => string
  readonly wrap?: (link: SqlLink) => SqlLink
  readonly migrates?: boolean
}

/** Stores on one server, each over a pool of its own. */
class Place {
  readonly #server: Server
  readonly #url: string
  readonly #ends: (() => Promise<unknown>)[] = []

  constructor(server: Server, url: string) {
    this.#server = server
    this.#url = url
  }

  async store(options: StoreOptions = {}): Promise<RecordStore> {
    const { table = freshTable(), change = (text) => text, wrap = (link) => link, migrates = true } = options
    const inner = wrap(this.#server === 'postgres' ? this.#pgLink(options) : this.#mysqlLink(options))
    const link: SqlLink = {
      run: (statement, values) => inner.run({ ...statement, text: change(statement.text) }, values),
      script: (text) => inner.script(change(text)),
      session: () => inner.session(),
      close: () => inner.close(),
    }
    const store =
      this.#server === 'postgres' ? postgresRecordsOver(link, { table }) : mysqlRecordsOver(link, { table })
    this.#ends.push(() => store.close())
    if (migrates) await store.migrate?.()
    await store.open()
    return store
  }

  #pgLink({ session = '' }: StoreOptions): SqlLink {
    const pool = new pg.Pool({ connectionString: this.#url, max: 4, options: session })
    return pgLink(pool, { prepare: true, end: () => pool.end() })
  }

  #mysqlLink({ session, mysql: options = {} }: StoreOptions): SqlLink {
    const pool = mysql.createPool({ uri: this.#url, connectionLimit: 4, ...options })
    if (session !== undefined) pool.pool.on('connection', (connection) => void connection.query(session))
    return mysqlLink(pool, { end: () => pool.end() })
  }

  levels(): readonly string[] {
    if (this.#server === 'postgres') {
      return ['repeatable\\ read', 'serializable'].map((level) => `-c default_transaction_isolation=${level}`)
    }
    const names = ['READ UNCOMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE']
    return names.map((level) => `SET SESSION TRANSACTION ISOLATION LEVEL ${level}`)
  }

  async close(): Promise<void> {
    await Promise.all(this.#ends.map((end) => end()))
  }
}

/** Fails the first of every two statements as the server fails one that was in a deadlock. */
function deadlocking(link: SqlLink): SqlLink {
  let asked = 0
  const run: SqlLink['run'] = async (statement, values) => {
    asked += 1
    if (asked % 2 === 0) throw new DeadlockError('in a deadlock', { backend: 'test' })
    return await link.run(statement, values)
  }
  return {
    run,
    script: (text) => link.script(text),
    session: () => link.session(),
    close: () => link.close(),
  }
}

/** Faults in the statements and routines that the random histories must find. */
const FAULTS: Readonly<Record<Server, readonly (readonly [string, string, string])[]>> = {
  postgres: [
    ['other versions are compared', 'left(p_kept, 3) = left(p_fingerprint, 3)', 'true'],
    ['anybody finishes', "AND owner = $2 AND fence = $3 AND state = 'in-progress' AND", 'AND fence = $3 AND'],
    ['every fence is the same', 'fence = greatest(r.fence + 1', 'fence = least(r.fence'],
  ],
  mariadb: [
    ['other versions are compared', 'LEFT(fingerprint, 3) = LEFT(p_fingerprint, 3)', 'TRUE'],
    [
      'anybody finishes',
      "AND owner = ? AND fence = ? AND state = 'in-progress'",
      'AND ? <> ? AND state <> 1',
    ],
  ],
  mysql: [],
}

for (const server of SERVERS) {
  const outcome = await storeFor(server)
  if (outcome.kind === 'not run') {
    it.skip(`records on ${server} (not run: ${outcome.reason})`)
    continue
  }
  const place = new Place(server, outcome.store.url)
  afterAll(async () => {
    await place.close()
    await outcome.store.dispose()
  })

  describe(`records on ${server}`, () => {
    it('miss their table with a word on how to make it', async () => {
      const store = await place.store({ migrates: false })
      const ask = askOf()
      const ref = { key: ask.key, owner: ask.owner, fence: 1n }
      const calls: readonly (() => Promise<unknown> | undefined)[] = [
        () => store.claim(ask),
        () => store.claim({ ...ask, onlyIssued: true }),
        () => store.renew([{ ...ref, leaseMs: 1_000, retentionMs: null }]),
        () => store.finish({ ...ref, state: 'completed', result: null, retentionMs: null }),
        () => store.read(ask.key),
        () => store.issue(ask.key, 1_000),
        () => store.spend({ key: ask.key, count: false }),
        () => store.purge?.(10),
      ]
      for (const call of calls) {
        await expect(Promise.resolve().then(call)).rejects.toThrow(UnsupportedError)
        await expect(Promise.resolve().then(call)).rejects.toThrow('migrate()')
      }
    })

    it('may be migrated by several at once, and again, and keep what they have', async () => {
      const table = freshTable()
      const stores = await Promise.all(
        Array.from({ length: 4 }, () => place.store({ table, migrates: false })),
      )
      await Promise.all(stores.map(async (store) => store.migrate?.()))
      const [first = await place.store(), second = first] = stores
      const ask = askOf()
      claimedOf(await first.claim(ask))
      await Promise.all(stores.map(async (store) => store.migrate?.()))
      expect((await second.claim(askOf({ key: ask.key }))).kind).toBe('in-progress')
    })

    it('give each key to one of many at every level of isolation', async () => {
      for (const session of place.levels()) {
        const table = freshTable()
        const stores = [await place.store({ table, session }), await place.store({ table, session })] as const
        const race = async (key: string): Promise<readonly bigint[]> => {
          const claims = Array.from({ length: 24 }, async (_, n) => stores[n % 2]?.claim(askOf({ key })))
          const answers = await Promise.all(claims)
          return answers.flatMap((answer) => (answer?.kind === 'claimed' ? [answer.fence] : []))
        }
        expect(await race(freshKey()), session).toHaveLength(1)
        const left = askOf({ leaseMs: 50 })
        const before = claimedOf(await stores[0].claim(left)).fence
        await until('the lease is over', async () => (await stores[0].read(left.key))?.leaseMs === 0)
        const after = await race(left.key)
        expect(after, session).toHaveLength(1)
        expect(after[0]).toBeGreaterThan(before)
      }
    })

    it('answer and fence rightly while their row comes and goes', async () => {
      const table = freshTable()
      const [a, b] = [await place.store({ table }), await place.store({ table })]
      const key = freshKey()
      let forgotten = 0
      const forget = async (): Promise<void> => {
        for (let times = 0; times < 60; times += 1) if (await b.forget(key)) forgotten += 1
      }
      const claim = async (store: RecordStore): Promise<readonly bigint[]> => {
        const fences: bigint[] = []
        for (let times = 0; times < 40; times += 1) {
          const answer = await store.claim(askOf({ key }))
          expect(['claimed', 'in-progress']).toContain(answer.kind)
          if (answer.kind === 'claimed') fences.push(answer.fence)
        }
        return fences
      }
      const [, ...all] = await Promise.all([forget(), claim(a), claim(a), claim(b)])
      for (const fences of all) expect(fences).toEqual([...fences].sort((x, y) => (x < y ? -1 : 1)))
      const given = all.flat()
      expect(new Set(given).size).toBe(given.length)
      expect(given.length).toBeGreaterThanOrEqual(forgotten)
    })

    it('purge what is over, each row once, and nothing else', async () => {
      const table = freshTable()
      const [a, b] = [await place.store({ table }), await place.store({ table })]
      const finished = async (retentionMs: number | null): Promise<string> => {
        const ask = askOf({ retentionMs })
        const { fence } = claimedOf(await a.claim(ask))
        const { key, owner } = ask
        await a.finish({ key, owner, fence, state: 'completed', result: 'x', retentionMs })
        return key
      }
      for (let count = 0; count < 30; count += 1) await finished(1)
      const kept = [await finished(60_000), await finished(null)]
      await a.issue(freshKey(), 1)
      await wait(20)
      expect(await a.purge?.(4)).toBe(4)
      const purged = await Promise.all([a.purge?.(100), b.purge?.(100)])
      // The two may have met at the same rows, and each left some to the other.
      const rest = (await a.purge?.(100)) ?? 0
      expect((purged[0] ?? 0) + (purged[1] ?? 0) + rest).toBe(27)
      expect(await a.purge?.(100)).toBe(0)
      for (const key of kept) expect((await b.read(key))?.state).toBe('completed')
    })

    it('try a step again that the server ended for a deadlock', async () => {
      const table = freshTable()
      await place.store({ table })
      const store = await place.store({ table, migrates: false, wrap: deadlocking })
      const ask = askOf()
      const { fence } = claimedOf(await store.claim(ask))
      const ref = { key: ask.key, owner: ask.owner, fence }
      expect(await store.renew([{ ...ref, leaseMs: 90_000, retentionMs: null }])).toEqual(['renewed'])
      expect(await store.save({ ...ref, progress: 'half' })).toBe('done')
      const end = { ...ref, state: 'completed', result: 'whole', retentionMs: null } as const
      expect(await store.finish(end)).toBe('done')
      expect((await store.read(ask.key))?.result).toBe('whole')
    })

    it('tell owners apart whatever the collation, and take no key that is not a hash', async () => {
      const store = await place.store()
      const ask = askOf({ owner: 'abc' })
      const { fence } = claimedOf(await store.claim(ask))
      for (const owner of ['ABC', 'abc ', 'àbc', '']) {
        const ref = { key: ask.key, owner, fence }
        expect(await store.finish({ ...ref, state: 'completed', result: null, retentionMs: null })).toBe(
          'stale',
        )
        expect(await store.save({ ...ref, progress: 'x' })).toBe('stale')
        expect(await store.renew([{ ...ref, leaseMs: 1, retentionMs: null }])).toEqual(['lost'])
      }
      for (const key of ['abc', `${'a'.repeat(63)}g`, 'a'.repeat(66)]) {
        await expect(store.claim(askOf({ key }))).rejects.toThrow(InvalidInputError)
      }
    })

    if (server !== 'postgres') {
      it('give the same answers whatever rows the driver has counted', async () => {
        for (const flags of [['-FOUND_ROWS'], ['FOUND_ROWS']]) {
          const table = freshTable()
          const options = { table, mysql: { flags } }
          await playsByTheRule([await place.store(options), await place.store(options)], { runs: 6 })
        }
      })

      it('keep texts whatever the character set of the connection', async () => {
        const table = freshTable()
        const [odd, plain] = [
          await place.store({ table, mysql: { charset: 'LATIN1_SWEDISH_CI' } }),
          await place.store({ table }),
        ]
        const ask = askOf({ owner: 'ö 𠮷' })
        const { fence } = claimedOf(await odd.claim(ask))
        const ref = { key: ask.key, owner: ask.owner, fence }
        await odd.save({ ...ref, progress: 'ü 𠮷 €' })
        await odd.finish({ ...ref, state: 'completed', result: 'é 𠮷 €', retentionMs: null })
        for (const store of [odd, plain]) {
          const { progress, result, owner } = (await store.read(ask.key)) ?? {}
          expect([progress, result, owner]).toEqual(['ü 𠮷 €', 'é 𠮷 €', 'ö 𠮷'])
        }
      })
    }

    for (const [what, from, to] of FAULTS[server]) {
      it(`are seen not to play by the rule if ${what}`, async () => {
        let planted = 0
        const change = (text: string): string => {
          if (text.includes(from)) planted += 1
          return text.replaceAll(from, to)
        }
        const table = freshTable()
        const stores = [await place.store({ table, change }), await place.store({ table, change })] as const
        await expect(playsByTheRule(stores, { runs: 300 })).rejects.toThrow()
        expect(planted).toBeGreaterThan(0)
      })
    }
  })
}
