import {
  missingPrograms,
  missingReason,
  type Pgbouncer,
  startPgbouncer,
  startPostgres,
} from 'holdfast-servers'
import pg from 'pg'
import { afterEach, describe, expect, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { type PostgresRecipe, postgresBackend } from '../../src/backends/postgres/backend.js'
import { createLocks } from '../../src/client/client.js'
import { connect } from '../../src/connect/connect.js'
import { examine } from '../../src/connect/examine.js'
import type { Finding } from '../../src/core/doctor.js'

const missing = missingPrograms(['postgres', 'pgbouncer'])

const started: { dispose(): Promise<void> }[] = []
const pools: pg.Pool[] = []
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.end()
  for (const each of started.splice(0).reverse()) await each.dispose()
})

type Mode = 'transaction' | 'session' | 'statement'

/** A pooler before a server that has the tables. */
async function pooler(mode: Mode, settings: Record<string, string | number> = {}): Promise<Pgbouncer> {
  const server = await startPostgres({ args: ['-c', 'fsync=on'] })
  started.push(server)
  const locks = await connect(server.url)
  await locks.migrate()
  await locks.close()
  const bouncer = await startPgbouncer({ port: server.port, mode, settings })
  started.push(bouncer)
  return bouncer
}

function poolOver({ url }: Pgbouncer): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: 6 })
  pools.push(pool)
  return pool
}

function levels(findings: readonly Finding[]): string[] {
  return findings.filter(({ check }) => check === 'pooler').map(({ level }) => level)
}

function adviceOf(findings: readonly Finding[]): string {
  return findings.map(({ check, advice }) => (check === 'pooler' ? advice : '')).join(' ')
}

describe.skipIf(missing.length > 0)(
  titled('behind PgBouncer', missing.length > 0 ? missingReason(missing) : null),
  () => {
    test.each(['advisory', 'for-update', 'advisory-xact'] satisfies PostgresRecipe[])(
      'in transaction mode, the recipe %s is refused when it is opened',
      async (recipe) => {
        const pool = poolOver(await pooler('transaction'))
        for (const prepare of [false, true]) {
          const refused = createLocks(postgresBackend({ pool, recipe, prepare }))
          await expect(refused).rejects.toMatchObject({
            code: 'UNSUPPORTED',
            message: expect.stringMatching(/pooler in transaction mode.*recipe `rows`/),
          })
        }
      },
    )

    test('with a pool of one connection, which has none to compare with, any pooler is refused', async () => {
      const { url } = await pooler('transaction', { ignore_startup_parameters: 'options' })
      for (const prepare of [false, true]) {
        await expect(connect(`${url}?recipe=advisory&max=1&prepare=${prepare}`)).rejects.toMatchObject({
          code: 'UNSUPPORTED',
          message: expect.stringMatching(/pooler.*one connection.*recipe `rows`/),
        })
      }
    })

    test('without a pooler, a pool of one connection is enough', async () => {
      const server = await startPostgres()
      started.push(server)
      const locks = await connect(`${server.url}?recipe=advisory&max=1`)
      await locks.mutex('a').run(async () => {})
      await locks.close()
    })

    test('in transaction mode, the recipe rows is refused unless it polls', async () => {
      const bouncer = await pooler('transaction')
      const pool = poolOver(bouncer)
      await expect(createLocks(postgresBackend({ pool, prepare: false }))).rejects.toMatchObject({
        code: 'UNSUPPORTED',
        message: expect.stringContaining("`wake: 'poll'`"),
      })
      const polling = { pool, wake: 'poll', prepare: false } as const
      const [one, two] = [
        await createLocks(postgresBackend(polling)),
        await createLocks(postgresBackend(polling)),
      ]
      let inside = 0
      let counter = 0
      const increment = async (): Promise<void> => {
        inside += 1
        expect(inside).toBe(1)
        const seen = counter
        await new Promise((resolve) => setTimeout(resolve, 2))
        counter = seen + 1
        inside -= 1
      }
      const runs = Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? one : two).mutex('a').run(increment))
      await Promise.all(runs)
      expect(counter).toBe(40)
      const hold = await one.readWrite('b').read().acquire()
      await hold.extend()
      expect(await two.readWrite('b').write().tryAcquire()).toBeNull()
      await hold.release()
      await one.close()
      await two.close()
    })

    test('in transaction mode, doctor says what works and what does not', async () => {
      const { url } = await pooler('transaction')
      for (const options of ['', '?recipe=advisory', '?recipe=for-update', '?recipe=advisory-xact']) {
        const findings = await examine(`${url}${options}`)
        expect(levels(findings)[0]).toBe('danger')
        expect(adviceOf(findings)).toMatch(/wake=poll&prepare=false/)
      }
      expect(levels(await examine(`${url}?wake=poll`))[0]).toBe('warning')
      // This version does not take what connections from a URL begin with.
      const refusing = await examine(`${url}?wake=poll&prepare=false`)
      expect(levels(refusing)).toEqual(['ok', 'danger'])
      expect(adviceOf(refusing)).toContain('ignore_startup_parameters = options')
    })

    test('that lets the settings of a URL pass, doctor and the URL agree', async () => {
      const { url } = await pooler('transaction', { ignore_startup_parameters: 'options' })
      const own = `${url}?wake=poll&prepare=false`
      const findings = await examine(own)
      expect(findings.filter(({ level }) => level !== 'ok')).toEqual([])
      const locks = await connect(own)
      await locks.mutex('a').run(async () => {})
      await locks.close()
    })

    test('in session mode, everything works, and doctor mentions it', async () => {
      const { url } = await pooler('session', { ignore_startup_parameters: 'options' })
      for (const recipe of ['rows', 'advisory', 'for-update', 'advisory-xact']) {
        const findings = await examine(`${url}?recipe=${recipe}`)
        expect(findings.filter(({ level }) => level !== 'ok')).toMatchObject([
          { check: 'pooler', level: 'note' },
        ])
        const locks = await connect(`${url}?recipe=${recipe}`)
        await locks.mutex('a').run(async () => {})
        await locks.close()
      }
    })

    test('in statement mode, doctor does not mistake it for an outage', async () => {
      const { url } = await pooler('statement')
      expect(levels(await examine(`${url}?recipe=advisory`))[0]).toBe('danger')
    })
  },
)

if (missing.length > 0) test.skip(`behind PgBouncer (not run: ${missing.join(', ')} not there)`)
