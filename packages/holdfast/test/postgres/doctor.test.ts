import { execFileSync } from 'node:child_process'
import { readlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type PostgresServer, startPostgres } from 'holdfast-servers'
import { afterEach, describe, expect, test } from 'vitest'
import { checkFacts } from '../../src/backends/postgres/doctor/checks.js'
import type { Facts, Usage } from '../../src/backends/postgres/doctor/facts.js'
import { NEEDS } from '../../src/backends/postgres/doctor/tables.js'
import { POSTGRES_SCHEME } from '../../src/backends/postgres/open.js'
import { schemaFor } from '../../src/backends/postgres/schema.js'
import { parseSqlUrl } from '../../src/backends/sql/address.js'
import { checkTransport } from '../../src/backends/sql/doctor/address.js'
import { connect } from '../../src/connect/connect.js'
import { examine } from '../../src/connect/examine.js'
import type { Finding } from '../../src/core/doctor.js'

/** What a server in earnest has, and one for tests has not. */
const DURABLE = ['-c', 'fsync=on']

const started: { dispose(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of started.splice(0).reverse()) await each.dispose()
})

async function server(...settings: readonly string[]): Promise<PostgresServer> {
  const args = [...DURABLE, ...settings.flatMap((setting) => ['-c', setting])]
  const postgres = await startPostgres({ args })
  started.push(postgres)
  return postgres
}

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

describe('a real server', () => {
  test('that is well has nothing against it, whatever the recipe', async () => {
    const { url } = await server()
    await migrated(url)
    for (const recipe of ['rows', 'advisory', 'for-update', 'advisory-xact']) {
      const findings = await examine(`${url}?recipe=${recipe}`)
      expect(notOk(findings)).toEqual([])
      expect(about(findings, 'server').found).toMatch(/^PostgreSQL \d+(\.\d+)?$/)
      expect(about(findings, 'recipe').found).toContain(recipe)
      expect(findings.every(({ advice }) => advice === null)).toBe(true)
    }
    const findings = await examine(url)
    expect(about(findings, 'notifications')).toMatchObject({ level: 'ok', found: 'arrive' })
    expect(about(findings, 'pooler').found).toBe('none')
  })

  test('is left as it was, and so are its locks', async () => {
    const postgres = await server()
    await migrated(postgres.url)
    const locks = await connect(postgres.url)
    const hold = await locks.mutex('doctor').acquire()
    const state = (): Promise<unknown> =>
      postgres.query('SELECT xmin, * FROM holdfast_places; SELECT last_value FROM holdfast_fences')
    const before = await state()
    for (const recipe of ['rows', 'for-update']) await examine(`${postgres.url}?recipe=${recipe}`)
    expect(await state()).toEqual(before)
    await hold.extend()
    hold.assertHeld()
    await locks.close()
  })

  test('lacks the tables, and the advice names the command', async () => {
    const { url } = await server()
    for (const recipe of ['rows', 'for-update']) {
      const tables = about(await examine(`${url}?recipe=${recipe}`), 'tables')
      expect(tables).toMatchObject({ level: 'danger', advice: expect.stringContaining('holdfast migrate') })
    }
    expect(about(await examine(`${url}?recipe=advisory`), 'tables').level).toBe('ok')
    await migrated(`${url}?tablePrefix=mine_`)
    expect(about(await examine(`${url}?tablePrefix=mine_`), 'tables').level).toBe('ok')
    expect(about(await examine(url), 'tables').found).toContain('holdfast_places')
  })

  test('may not give the rights that are needed, and the advice is enough to get them', async () => {
    const postgres = await server()
    await postgres.query('CREATE ROLE app LOGIN; CREATE SCHEMA locks; REVOKE ALL ON SCHEMA locks FROM public')
    const own = `${postgres.url}?tablePrefix=locks.holdfast_`
    await migrated(own)
    await postgres.query('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA locks FROM public')
    const app = own.replace('postgres@', 'app@')
    const advice = await rightsAdvice(app)
    expect(advice).toEqual(['GRANT USAGE ON SCHEMA locks TO the user;'])
    for (const grant of advice) await postgres.query(grant.replace('the user', 'app'))
    const grants = await rightsAdvice(app)
    expect(grants).toHaveLength(NEEDS.rows.length)
    for (const grant of grants) await postgres.query(grant.replace('the user', 'app'))
    expect(about(await examine(app), 'rights').level).toBe('ok')
    const locks = await connect(app)
    const hold = await locks.mutex('a').acquire()
    await hold.extend()
    await hold.release()
    await locks.close()
    const rows = await rightsAdvice(`${app}&recipe=for-update`)
    expect(rows).toEqual(['GRANT SELECT, INSERT, UPDATE ON TABLE locks.holdfast_rows TO the user;'])
    for (const grant of rows) await postgres.query(grant.replace('the user', 'app'))
    const transactions = await connect(`${app}&recipe=for-update`)
    await transactions.mutex('a').run(async () => {})
    await transactions.close()
  })

  test('may be set up so that locks are forgotten, or cut short', async () => {
    const { url } = await server(
      'fsync=off',
      'synchronous_commit=off',
      'full_page_writes=off',
      'statement_timeout=500ms',
      'lock_timeout=100ms',
      'idle_session_timeout=5s',
      'idle_in_transaction_session_timeout=10s',
      'default_transaction_isolation=repeatable read',
    )
    const rows = await examine(url)
    const texts = (findings: readonly Finding[], check: string): string[] =>
      findings.filter((each) => each.check === check).map(({ level, found }) => `${level}: ${found}`)
    expect(texts(rows, 'durability')).toEqual([
      expect.stringMatching(/^warning: `fsync` is off/),
      expect.stringMatching(/^warning: `full_page_writes` is off/),
      expect.stringMatching(/^warning: `synchronous_commit` is off/),
    ])
    expect(texts(rows, 'timeouts')).toEqual([
      expect.stringMatching(/^warning: `statement_timeout` of 500 ms/),
      expect.stringMatching(/^warning: `lock_timeout` of 100 ms/),
      expect.stringMatching(/^warning: `idle_session_timeout` of 5 s .* the one that listens/),
    ])
    expect(about(rows, 'isolation')).toMatchObject({
      level: 'note',
      found: expect.stringContaining('repeatable read'),
    })
    expect(texts(await examine(`${url}?wake=poll`), 'timeouts')[2]).toMatch(
      /^note: `idle_session_timeout` of 5 s/,
    )
    const advisory = await examine(`${url}?recipe=advisory`)
    expect(notOk(advisory)).toEqual([])
    const transactions = await examine(`${url}?recipe=advisory-xact`)
    expect(texts(transactions, 'timeouts')).toEqual([
      expect.stringMatching(/^warning: `statement_timeout`/),
      expect.stringMatching(/^danger: `idle_in_transaction_session_timeout` of 10 s/),
    ])
  })

  test('may hide which transactions are alive', async () => {
    const { url } = await server('track_activities=off')
    expect(about(await examine(`${url}?recipe=advisory-xact`), 'activity').level).toBe('danger')
  })

  test('may be read-only, or have unlogged tables', async () => {
    const postgres = await server()
    await migrated(postgres.url)
    await postgres.query('ALTER TABLE holdfast_places SET UNLOGGED')
    expect(about(await examine(postgres.url), 'tables')).toMatchObject({ level: 'warning' })
    await postgres.query('ALTER ROLE postgres SET default_transaction_read_only = on')
    expect(about(await examine(postgres.url), 'role')).toMatchObject({ level: 'danger' })
  })

  test('may have too few connections left', async () => {
    const { url } = await server('max_connections=12')
    const findings = await examine(url)
    expect(about(findings, 'connections')).toMatchObject({ level: 'warning' })
    expect(about(await examine(`${url}?max=2`), 'connections')).toMatchObject({ level: 'ok' })
  })

  test('that is not there, or wants another login, is an error and no finding', async () => {
    await expect(examine('postgres://127.0.0.1:1')).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    const { url } = await server()
    await expect(examine(url.replace('postgres@', 'nobody:secret@'))).rejects.toMatchObject({
      code: 'UNSUPPORTED',
    })
    await expect(examine(url.replace(/postgres$/, 'nothing'))).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    await expect(examine(`${url}?recpie=rows`)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  })
})

/** The statements that the advice about rights consists of. */
async function rightsAdvice(url: string): Promise<readonly string[]> {
  const { level, advice } = about(await examine(url), 'rights')
  expect(level).toBe('danger')
  return [...(advice ?? '').matchAll(/GRANT [^;]*;/g)].map(([grant]) => grant)
}

describe('a standby', () => {
  /** Makes a copy of a server that follows it. */
  async function standbyOf(primary: PostgresServer): Promise<PostgresServer> {
    const standby = await startPostgres()
    started.push(standby)
    await standby.stop()
    const data = join(standby.folder, 'data')
    const programs = dirname(readlinkSync(`/proc/${primary.pid}/exe`))
    execFileSync('sh', [
      '-c',
      `rm -rf "$1" && "$2/pg_basebackup" -h 127.0.0.1 -p "$3" -U postgres -D "$1" -R -c fast -X stream &&
        printf "\\nprimary_conninfo = 'host=127.0.0.1 port=%s user=postgres application_name=twin'\\n" "$3" >> "$1/postgresql.auto.conf" &&
        chown -R --reference="$(dirname "$1")" "$1" && chmod 700 "$1"`,
      'copy',
      data,
      programs,
      String(primary.port),
    ])
    await standby.restart()
    return standby
  }

  test('is told from its primary, which wants it to be waited for', async () => {
    const primary = await server('wal_level=replica')
    await migrated(primary.url)
    const standby = await standbyOf(primary)
    await expect
      .poll(() => primary.query('SELECT state FROM pg_stat_replication'), { timeout: 60_000 })
      .toEqual([['streaming']])
    expect(about(await examine(standby.url), 'role')).toMatchObject({ level: 'danger' })
    expect(about(await examine(primary.url), 'replication')).toMatchObject({ level: 'warning' })
    expect(about(await examine(`${primary.url}?recipe=advisory`), 'replication').level).toBe('warning')
    expect(about(await examine(`${primary.url}?recipe=for-update`), 'replication').level).toBe('ok')
    await primary.query('CREATE ROLE app LOGIN')
    const unprivileged = await examine(primary.url.replace('postgres@', 'app@'))
    expect(about(unprivileged, 'insight')).toMatchObject({ level: 'note' })
    await primary.query("ALTER SYSTEM SET synchronous_standby_names = 'twin'")
    await primary.query('SELECT pg_reload_conf()')
    await expect
      .poll(() => primary.query('SELECT sync_state FROM pg_stat_replication'), { timeout: 60_000 })
      .toEqual([['sync']])
    expect(about(await examine(primary.url), 'replication')).toMatchObject({ level: 'ok' })
    await standby.kill()
    await expect
      .poll(() => primary.query('SELECT sync_state FROM pg_stat_replication'), { timeout: 60_000 })
      .toEqual([])
    // It finds that out without being stopped by it.
    expect(about(await examine(primary.url), 'replication')).toMatchObject({ level: 'danger' })
  })
})

describe('what cannot be planted in a real server', () => {
  const usage: Usage = { recipe: 'rows', prefix: 'holdfast_', wake: 'notify', prepare: true, poolMax: 10 }
  const facts = (settings: Record<string, string>, more: Partial<Facts> = {}): Facts => ({
    version: 'PostgreSQL 17.2 on x86_64',
    settings: new Map(Object.entries({ max_connections: '100', server_version: '17.2', ...settings })),
    isStandby: false,
    backends: 5,
    standbys: [],
    hidden: [],
    ...more,
  })

  test.each([
    [{ server_version: '12.20 (Debian)' }, {}, 'server', 'warning'],
    [{ server_version: '13.0' }, {}, 'server', 'ok'],
    [{ server_version: '19beta1' }, {}, 'server', 'ok'],
    [{ server_version: '13.0' }, { version: 'CockroachDB CCL v24.1' }, 'server', 'warning'],
    [{ server_version: '11.2' }, { version: 'PostgreSQL 11.2-YB-2.21' }, 'server', 'warning'],
    [
      { synchronous_standby_names: 'a', synchronous_commit: 'local' },
      { standbys: ['sync'] },
      'replication',
      'warning',
    ],
    [{ synchronous_standby_names: 'a' }, { standbys: ['quorum', 'async'] }, 'replication', 'ok'],
    [{}, { backends: 95 }, 'connections', 'warning'],
  ])('%j %j', (settings, more, check, level) => {
    expect(about(checkFacts(facts(settings, more), usage), check).level).toBe(level)
  })

  test.each([
    ['5000', 'danger'],
    ['600000', 'note'],
    ['0', 'ok'],
  ])('a transaction_timeout of %s', (transaction_timeout, level) => {
    const known = facts({ transaction_timeout })
    expect(about(checkFacts(known, { ...usage, recipe: 'for-update' }), 'timeouts').level).toBe(level)
    expect(about(checkFacts(known, usage), 'timeouts').level).toBe('ok')
  })

  test.each([
    ['postgres://10.0.0.7/db', 'note'],
    ['postgres://app:secret@10.0.0.7/db', 'warning'],
    ['postgres://app:secret@10.0.0.7/db?sslmode=require', 'note'],
    ['postgres://app:secret@10.0.0.7/db?sslmode=verify-full', 'ok'],
    ['postgres://app:secret@127.0.0.1/db', 'ok'],
    ['postgres://app:secret@[::1]/db', 'ok'],
  ])('the way of %s is %s', (url, level) => {
    const findings = checkTransport(parseSqlUrl(url, POSTGRES_SCHEME))
    expect(about(findings, 'transport').level).toBe(level)
    expect(JSON.stringify(findings)).not.toContain('secret')
  })

  test('everything that the schema makes is looked for', () => {
    const made = [...schemaFor('holdfast_').matchAll(/^CREATE .*?(holdfast_\w+)/gm)].map(([, name]) => name)
    const wanted = Object.values(NEEDS).flatMap((needs) => needs.map(({ name }) => name))
    expect(new Set(wanted)).toEqual(new Set(made))
  })
})
