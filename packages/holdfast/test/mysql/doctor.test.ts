import { type MysqlServer, missingPrograms, startMariadb, startMysql } from 'holdfast-servers'
import { afterEach, describe, expect, test } from 'vitest'
import { checkFacts } from '../../src/backends/mysql/doctor/checks.js'
import type { Facts, Usage } from '../../src/backends/mysql/doctor/facts.js'
import { NEEDS } from '../../src/backends/mysql/doctor/tables.js'
import { schemaFor } from '../../src/backends/mysql/schema.js'
import { connect } from '../../src/connect/connect.js'
import { examine } from '../../src/connect/examine.js'
import type { Finding } from '../../src/core/doctor.js'

/** What a server in earnest has, and one for tests has not. */
const DURABLE = ['--innodb-flush-log-at-trx-commit=1', '--sync-binlog=1']
const RECIPES = ['rows', 'get-lock', 'for-update'] as const

const FAMILIES = [
  { family: 'MariaDB', program: 'mariadbd', start: startMariadb },
  { family: 'MySQL', program: 'mysqld', start: startMysql },
] as const

const started: { dispose(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of started.splice(0).reverse()) await each.dispose()
})

async function migrated(url: string): Promise<void> {
  const locks = await connect(url)
  await locks.migrate()
  await locks.close()
}

function about(findings: readonly Finding[], check: string): Finding {
  const found = findings.filter((each) => each.check === check)
  expect(found, `one finding about ${check} in ${JSON.stringify(findings)}`).toHaveLength(1)
  return found[0] as Finding
}

function notOk(findings: readonly Finding[]): readonly Finding[] {
  return findings.filter(({ level }) => level !== 'ok')
}

function texts(findings: readonly Finding[], check: string): string[] {
  return findings.filter((each) => each.check === check).map(({ level, found }) => `${level}: ${found}`)
}

/** The statements that the advice about rights consists of. */
async function rightsAdvice(url: string): Promise<readonly string[]> {
  const { level, advice } = about(await examine(url), 'rights')
  expect(level).toBe('danger')
  return [...(advice ?? '').matchAll(/GRANT [^;]*;/g)].map(([grant]) => grant.replace(';', ''))
}

for (const { family, program, start } of FAMILIES) {
  const missing = missingPrograms([program])
  if (missing.length > 0) {
    test.skip(`${family} (not run: ${missing.join(', ')} not there)`)
    continue
  }

  async function server(...args: readonly string[]): Promise<MysqlServer> {
    const mysql = await start({ args: [...DURABLE, ...args] })
    started.push(mysql)
    return mysql
  }

  describe(`a real server of ${family}`, () => {
    test('that is well has nothing against it, whatever the recipe, and is left as it was', async () => {
      const mysql = await server()
      await migrated(mysql.url)
      const locks = await connect(mysql.url)
      const hold = await locks.mutex('doctor').acquire()
      const state = async (): Promise<unknown> => [
        await mysql.query('SELECT * FROM holdfast_places'),
        await mysql.query('SELECT * FROM holdfast_slots'),
      ]
      const before = await state()
      for (const recipe of RECIPES) {
        const findings = await examine(`${mysql.url}?recipe=${recipe}`)
        expect(notOk(findings)).toEqual([])
        expect(about(findings, 'server').found).toMatch(new RegExp(`^${family} \\d+\\.\\d+\\.\\d+$`))
        expect(about(findings, 'recipe').found).toContain(recipe)
        expect(findings.every(({ advice }) => advice === null)).toBe(true)
      }
      expect(notOk(await examine(mysql.url.replace('mysql:', 'mariadb:')))).toEqual([])
      expect(await state()).toEqual(before)
      await hold.extend()
      hold.assertHeld()
      await locks.close()
    })

    test('lacks the tables, some of their rows, or their engine', async () => {
      const mysql = await server()
      for (const recipe of ['rows', 'for-update']) {
        const tables = about(await examine(`${mysql.url}?recipe=${recipe}`), 'tables')
        expect(tables).toMatchObject({ level: 'danger', advice: expect.stringContaining('holdfast migrate') })
      }
      expect(about(await examine(`${mysql.url}?recipe=get-lock`), 'tables').level).toBe('ok')
      await migrated(`${mysql.url}?tablePrefix=holdfast.mine_`)
      expect(about(await examine(`${mysql.url}?tablePrefix=mine_`), 'tables').level).toBe('ok')
      expect(about(await examine(mysql.url), 'tables').found).toContain('holdfast_places')
      await mysql.query('DROP PROCEDURE mine_sweep_v1')
      expect(about(await examine(`${mysql.url}?tablePrefix=mine_`), 'tables').found).toMatch(
        /^mine_sweep_v1 not there/,
      )
      await migrated(`${mysql.url}?tablePrefix=mine_`)
      await mysql.query('DELETE FROM mine_slots WHERE slot < 6')
      expect(about(await examine(`${mysql.url}?tablePrefix=mine_`), 'tables').found).toContain('250 of 256')
      await migrated(`${mysql.url}?tablePrefix=mine_`)
      await mysql.query('ALTER TABLE mine_places ENGINE=MyISAM')
      for (const prefix of ['mine_', 'holdfast.mine_']) {
        const findings = await examine(`${mysql.url}?tablePrefix=${prefix}`)
        expect(about(findings, 'engine')).toMatchObject({
          level: 'danger',
          found: expect.stringContaining('mine_places is in MyISAM'),
        })
      }
    })

    test('may not give the rights that are needed, and the advice is enough to get them', async () => {
      const mysql = await server()
      await migrated(mysql.url)
      await mysql.query(`CREATE USER app@'%'`)
      await mysql.query('CREATE TABLE other (n INT)')
      await mysql.query(`GRANT SELECT ON other TO app@'%'`)
      const app = mysql.url.replace('root@', 'app@')
      for (const recipe of ['rows', 'for-update']) {
        const own = `${app}?recipe=${recipe}`
        const grants = await rightsAdvice(own)
        expect(grants.length).toBeGreaterThan(0)
        for (const grant of grants) await mysql.query(grant.replace('the user', `app@'%'`))
        const findings = await examine(own)
        expect(about(findings, 'rights').level).toBe('ok')
        expect(about(findings, 'insight')).toMatchObject({ level: 'note' })
        const locks = await connect(own)
        const hold = await locks.mutex('a').acquire()
        await hold.extend()
        if (recipe === 'rows') await locks.inspect('a')
        await hold.release()
        await locks.close()
      }
    })

    test('may be set up so that locks are forgotten, or cut short', async () => {
      const mysql = await server(
        '--innodb-flush-log-at-trx-commit=0',
        '--wait-timeout=5',
        '--autocommit=0',
        '--log-bin=binlog',
        '--server-id=1',
        '--binlog-format=STATEMENT',
        '--sync-binlog=0',
        '--max-connections=10',
        ...(family === 'MySQL' ? ['--max-execution-time=500'] : ['--max-statement-time=0.5']),
        '--innodb-doublewrite=0',
      )
      const rows = await examine(mysql.url)
      expect(texts(rows, 'durability')).toEqual([
        expect.stringMatching(/^warning: `innodb_flush_log_at_trx_commit` is 0: a crash of the server/),
        expect.stringMatching(/^warning: `sync_binlog`/),
        expect.stringMatching(/^warning: `innodb_doublewrite`/),
      ])
      expect(texts(rows, 'timeouts')).toEqual([
        expect.stringMatching(/^warning: `max_(execution|statement)_time` of 500 ms/),
        expect.stringMatching(/^note: `wait_timeout` of 5 s closes idle connections/),
      ])
      expect(about(rows, 'autocommit').level).toBe('danger')
      expect(about(rows, 'binlog').level).toBe('danger')
      expect(about(rows, 'connections').level).toBe('warning')
      const transactions = texts(await examine(`${mysql.url}?recipe=for-update`), 'timeouts')
      expect(transactions).toContainEqual(expect.stringMatching(/^danger: `wait_timeout` of 5 s ends/))
      expect(notOk(await examine(`${mysql.url}?recipe=get-lock&max=2`))).toEqual([])
    })

    test('may be read-only, or a replica, or have one', async () => {
      const source = await server('--log-bin=binlog', '--server-id=1', '--binlog-format=ROW')
      const replica = await server('--log-bin=binlog', '--server-id=2', '--binlog-format=ROW')
      await migrated(source.url)
      await migrated(replica.url)
      expect(about(await examine(source.url), 'replication').level).toBe('ok')
      await follow(replica, source)
      await expect
        .poll(async () => about(await examine(source.url), 'replication'), { timeout: 60_000, interval: 500 })
        .toMatchObject({ level: 'warning', found: expect.stringContaining('1 replica attached') })
      expect(about(await examine(`${source.url}?recipe=get-lock`), 'replication').level).toBe('warning')
      expect(about(await examine(`${source.url}?recipe=for-update`), 'replication').level).toBe('ok')
      expect(about(await examine(replica.url), 'role')).toMatchObject({ level: 'warning' })
      await replica.query('SET GLOBAL read_only = ON')
      expect(about(await examine(replica.url), 'role')).toMatchObject({ level: 'danger' })
    })

    test('that is not there, or wants another login, is an error and no finding', async () => {
      await expect(examine('mysql://127.0.0.1:1')).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
      const { url } = await server()
      await expect(examine(url.replace('root@', 'nobody:secret@'))).rejects.toMatchObject({
        code: 'UNSUPPORTED',
      })
      await expect(examine(url.replace(/holdfast$/, 'nothing'))).rejects.toMatchObject({
        code: 'UNSUPPORTED',
      })
      await expect(examine(`${url}?recpie=rows`)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    })
  })

  async function follow(replica: MysqlServer, source: MysqlServer): Promise<void> {
    if (family === 'MariaDB') {
      await replica.query(
        `CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=${source.port}, MASTER_USER='root', MASTER_CONNECT_RETRY=1`,
      )
      await replica.query('START SLAVE')
      return
    }
    await replica.query(
      `CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=${source.port}, SOURCE_USER='root',
        SOURCE_CONNECT_RETRY=1, GET_SOURCE_PUBLIC_KEY=1`,
    )
    await replica.query('START REPLICA')
  }
}

describe('what cannot be planted in a real server', () => {
  const usage: Usage = { recipe: 'rows', prefix: 'holdfast_', poolMax: 10 }
  const facts = (variables: Record<string, string>, more: Partial<Facts> = {}): Facts => ({
    variables: new Map(
      Object.entries({ version: '8.4.3', autocommit: 'ON', max_connections: '100', ...variables }),
    ),
    status: new Map([['Threads_connected', '5']]),
    replicas: 0,
    sources: 0,
    ...more,
  })

  test.each([
    [{ version: '5.7.44-log' }, {}, 'server', 'danger'],
    [{ version: '8.0.36' }, {}, 'server', 'ok'],
    [{ version: '10.5.23-MariaDB-1' }, {}, 'server', 'danger'],
    [{ version: '10.6.16-MariaDB' }, {}, 'server', 'ok'],
    [{ version: '11.4.2-MariaDB' }, {}, 'server', 'ok'],
    [{ version: '8.0.11-TiDB-v7.5.0' }, {}, 'server', 'warning'],
    [{ wsrep_on: 'ON' }, {}, 'writers', 'danger'],
    [{ group_replication_single_primary_mode: 'OFF' }, {}, 'writers', 'danger'],
    [{ super_read_only: 'ON' }, {}, 'role', 'danger'],
    [{ innodb_lock_wait_timeout: '0' }, {}, 'timeouts', 'warning'],
    [
      { rpl_semi_sync_source_enabled: 'ON' },
      { replicas: 1, status: new Map([['Rpl_semi_sync_source_clients', '1']]) },
      'replication',
      'note',
    ],
    [{ rpl_semi_sync_master_enabled: 'ON' }, { replicas: 1 }, 'replication', 'warning'],
  ])('%j %j', (variables, more, check, level) => {
    expect(about(checkFacts(facts(variables, more), usage), check).level).toBe(level)
  })

  test.each([
    ['10', 'danger'],
    ['600', 'note'],
    ['28800', 'ok'],
  ])('a wait_timeout of %s s, for transactions', (wait_timeout, level) => {
    const known = facts({ wait_timeout })
    expect(about(checkFacts(known, { ...usage, recipe: 'for-update' }), 'timeouts').level).toBe(level)
    expect(about(checkFacts(known, { ...usage, recipe: 'get-lock' }), 'timeouts').level).toBe('ok')
  })

  test('everything that the schema makes is looked for', () => {
    const made = [...schemaFor('holdfast_').matchAll(/^CREATE .*?(holdfast_\w+)/gm)].map(([, name]) => name)
    const wanted = Object.values(NEEDS).flatMap(({ tables, routines }) => [
      ...tables.map(({ name }) => name),
      ...routines,
    ])
    expect(new Set(wanted)).toEqual(new Set(made))
  })
})
