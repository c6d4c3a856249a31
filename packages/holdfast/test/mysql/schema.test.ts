import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { schemaFor, splitScript } from '../../src/backends/mysql/schema.js'
import { UnsupportedError } from '../../src/core/errors.js'
import { mysqlBackend } from '../../src/mysql.js'
import { claimOf, NO_SINK } from '../support/claims.js'
import { describeMysql, type Place } from './support.js'

const PATIENCE = { waitMs: 0, leaseMs: 1_000 }
const ROUTINES = ['clear', 'take', 'renew', 'leave', 'sweep']

/** Everything that was made, as the server would write it again. */
async function made(place: Place, prefix: string): Promise<unknown> {
  const found: unknown[] = []
  for (const table of ['places', 'slots', 'rows']) {
    const rows = await place.server.query(`SHOW CREATE TABLE ${prefix}${table}`)
    found.push(rows.map((row) => String(row[1]).replace(/ AUTO_INCREMENT=\d+/, '')))
  }
  for (const routine of ROUTINES) {
    found.push(await place.server.query(`SHOW CREATE PROCEDURE ${prefix}${routine}_v1`))
  }
  found.push(await place.server.query(`SELECT COUNT(*), MIN(slot), MAX(slot) FROM ${prefix}slots`))
  return found
}

describe('the text of the schema', () => {
  it('is split as the command line splits it', () => {
    const text =
      '-- one;\nSELECT 1;\n\nDELIMITER //\nBEGIN\n  -- two;\n  SELECT 2;\nEND //\nDELIMITER ;\nSELECT\n3;\n'
    expect(splitScript(text)).toEqual(['SELECT 1', 'BEGIN\n  -- two;\n  SELECT 2;\nEND', 'SELECT\n3'])
  })

  it('has nothing of the default prefix left under another', () => {
    expect(schemaFor('locks.lk_')).not.toContain('holdfast_')
    expect(schemaFor('locks.lk_')).toContain('CREATE TABLE IF NOT EXISTS locks.lk_places')
  })
})

await describeMysql('the schema', (place) => {
  it('is missed with a word on how to make it', async () => {
    const backend = mysqlBackend({ pool: place.pool(), tablePrefix: 'absent_' })
    await backend.open(NO_SINK)
    const claim = claimOf('x')
    for (const call of [
      () => backend.attempt(claim, PATIENCE),
      () => backend.attempt({ ...claim, weight: 2 }, PATIENCE),
      () => backend.renew([{ claim, fence: 1n, leaseMs: 1_000 }]),
      () => backend.release(claim),
      () => backend.inspect('x'),
    ]) {
      await expect(call()).rejects.toThrow(UnsupportedError)
      await expect(call()).rejects.toThrow('holdfast migrate')
    }
  })

  it('may be made by several at once, and again, and changes nothing then', async () => {
    const backends = Array.from({ length: 4 }, () =>
      mysqlBackend({ pool: place.pool(), tablePrefix: 'many_' }),
    )
    await Promise.all(backends.map(async (backend) => backend.migrate?.()))
    const first = await made(place, 'many_')
    await place.server.query('UPDATE many_slots SET fence = 77')
    await Promise.all(backends.map(async (backend) => backend.migrate?.()))
    expect(await made(place, 'many_')).toEqual(first)
    expect(await place.server.query('SELECT DISTINCT fence FROM many_slots')).toEqual([['77']])
    expect(await place.server.query("SELECT IS_FREE_LOCK('holdfast migrate')")).toEqual([['1']])
  })

  it('does not depend on the mode of the session, and gives that back', async () => {
    const pool = place.pool({ connectionLimit: 1 })
    const modes = `ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES${place.name === 'mariadb' ? ',ORACLE' : ''}`
    await pool.query(`SET SESSION sql_mode = '${modes}'`)
    const [before] = await pool.query('SELECT @@SESSION.sql_mode')
    const backend = mysqlBackend({ pool, tablePrefix: 'mode_' })
    await backend.migrate?.()
    expect((await pool.query('SELECT @@SESSION.sql_mode'))[0]).toEqual(before)
    await place.backend({ tablePrefix: 'plain_' })
    expect(JSON.stringify(await made(place, 'mode_')).replaceAll('mode_', 'plain_')).toBe(
      JSON.stringify(await made(place, 'plain_')),
    )
    await backend.open(NO_SINK)
    const claim = claimOf('x')
    expect((await backend.attempt(claim, PATIENCE)).kind).toBe('granted')
    expect((await backend.attempt(claimOf('x'), PATIENCE)).kind).toBe('refused')
    expect(await backend.release(claim)).toBe('released')
  })

  it('can stand in another database', async () => {
    await place.server.query('CREATE DATABASE IF NOT EXISTS elsewhere')
    const backend = await place.backend({ tablePrefix: 'elsewhere.lk_' })
    const [first, second] = [claimOf('x'), claimOf('x')]
    expect((await backend.attempt(first, PATIENCE)).kind).toBe('granted')
    expect((await backend.attempt(second, { ...PATIENCE, waitMs: 1 })).kind).toBe('waiting')
    expect(await backend.release(first)).toBe('released')
    expect((await backend.attempt(second, PATIENCE)).kind).toBe('granted')
    expect(await place.server.query('SELECT COUNT(*) FROM elsewhere.lk_places')).toEqual([['2']])
  })

  it('can be given to the command line of the database, twice', async ({ skip }) => {
    const run = promisify(execFile)
    const has = await run('mariadb', ['--version']).catch(() => null)
    if (has === null) skip('the command is not there')
    const args = [
      '--no-defaults',
      '-h',
      '127.0.0.1',
      '-P',
      String(place.server.port),
      '-u',
      'root',
      '--skip-ssl',
    ]
    for (let times = 0; times < 2; times += 1) {
      const running = run('mariadb', [...args, 'holdfast'], { timeout: 30_000 })
      running.child.stdin?.end(schemaFor('shell_'))
      await running
    }
    await place.backend({ tablePrefix: 'library_' })
    const hash = (value: unknown): string => {
      // The command line leaves comments away or keeps them, and so does the library.
      const text = JSON.stringify(value)
        .replaceAll(/-- .*?\\n/g, '')
        .replaceAll(/\s+|\\n/g, ' ')
      return createHash('sha256').update(text.replaceAll('shell_', 'library_')).digest('hex')
    }
    const [byShell, byLibrary] = [await made(place, 'shell_'), await made(place, 'library_')]
    expect((byShell as unknown[]).length).toBe((byLibrary as unknown[]).length)
    expect(hash((byShell as unknown[]).slice(0, 3))).toBe(hash((byLibrary as unknown[]).slice(0, 3)))
  })

  it('keeps counting fences after the server was killed', async () => {
    const pool = place.pool()
    const backend = await place.backend({ pool })
    const fenceOf = async (): Promise<bigint> => {
      const claim = claimOf('counted')
      const verdict = await backend.attempt(claim, PATIENCE)
      await backend.release(claim)
      return (verdict as { fence: bigint }).fence
    }
    let last = 0n
    for (let times = 0; times < 20; times += 1) last = await fenceOf()
    await place.server.kill()
    await place.server.restart()
    await expect.poll(() => fenceOf().catch(() => null), { timeout: 60_000 }).toBeGreaterThan(last)
  })
})
