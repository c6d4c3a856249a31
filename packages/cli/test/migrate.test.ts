import { spawnSync } from 'node:child_process'
import { storeFor } from 'holdfast-servers'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { isDeep } from '../../../test/support/depth.js'
import { Bench, type Ended, requireBuild } from './command.js'

let bench: Bench
beforeAll(requireBuild)
beforeEach(() => {
  bench = new Bench()
})
afterEach(async () => {
  await bench.clear()
})

/** Runs a command that does nothing under a lock. */
async function underLock(url: string, ...options: readonly string[]): Promise<Ended> {
  return await bench.holdfast(['run', 'job', '--url', url, ...options, '--', process.execPath, '-e', ''])
}

const DATABASES = [
  { store: 'postgres', recipes: ['rows', 'for-update'], bare: 'advisory', port: 5_432 },
  // MariaDB runs the same code as MySQL.
  ...(isDeep
    ? [{ store: 'mariadb', recipes: ['rows', 'for-update'], bare: 'get-lock', port: 3_306 } as const]
    : []),
  { store: 'mysql', recipes: ['rows', 'for-update'], bare: 'get-lock', port: 3_306 },
] as const

for (const { store, recipes, bare } of DATABASES) {
  const outcome = await storeFor(store)
  if (outcome.kind === 'not run') {
    test.skip(`migrate on ${store} (not run: ${outcome.reason})`)
    continue
  }
  const { url } = outcome.store
  afterAll(() => outcome.store.dispose())

  describe(`migrate on ${store}`, () => {
    test.each(recipes)('a lock before it names the command, and one after it works (%s)', async (recipe) => {
      const own = `${url}?recipe=${recipe}&tablePrefix=${recipe.slice(0, 3)}_`
      const before = await underLock(own)
      expect(before.stderr).toMatch(/^holdfast: [^\n]*`holdfast migrate --url …`[^\n]*\n$/)
      expect(before).toMatchObject({ exitCode: 64, stdout: '' })
      const { exitCode, stdout, stderr } = await bench.holdfast(['migrate', '--url', own])
      expect(stderr).toBe('')
      expect(stdout).toMatch(
        new RegExp(`^These are there now, in [a-z]+:\n  table ${recipe.slice(0, 3)}_places\n`),
      )
      expect(exitCode).toBe(0)
      expect(await underLock(own)).toMatchObject({ exitCode: 0, stderr: '' })
      // Also while locks are held, which stay.
      const holder = bench.start([
        'run',
        'kept',
        '--url',
        own,
        '--',
        process.execPath,
        '-e',
        `console.log('held'); setInterval(() => {}, 1000)`,
      ])
      await holder.prints('held')
      expect(await bench.holdfast(['migrate', '--url', own])).toMatchObject({
        exitCode: 0,
        stdout,
        stderr: '',
      })
      const taken = ['run', 'kept', '--wait', '0s', '--url', own, '--', process.execPath, '-e', '']
      expect((await bench.holdfast(taken)).exitCode).toBe(75)
    })

    test('the table of idempotency records is made and printed by --records', async () => {
      const own = `${url}?tablePrefix=kept_`
      const printed = await bench.holdfast(['migrate', '--url', own, '--records', '--print'])
      expect(printed).toMatchObject({ exitCode: 0, stderr: '' })
      expect(printed.stdout).toContain('kept_records')
      expect(printed.stdout).not.toContain('kept_places')
      for (const _ of ['first', 'again']) {
        const { exitCode, stdout, stderr } = await bench.holdfast(['migrate', '--url', own, '--records'])
        expect(stderr).toBe('')
        expect(stdout).toMatch(/^These are there now, in [a-z]+:\n {2}table kept_records\n/)
        expect(exitCode).toBe(0)
      }
    })

    test('what is printed makes the same by hand', async ({ skip }) => {
      const own = `${url}?tablePrefix=printed_`
      const { exitCode, stdout, stderr } = await bench.holdfast(['migrate', '--url', own, '--print'])
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
      expect(stdout).toContain('CREATE TABLE IF NOT EXISTS printed_places')
      expect(stdout).not.toContain('holdfast_')
      if (store === 'postgres') {
        await outcome.store.control.query(stdout)
      } else if (!ranByMysql(outcome.store.control.port, stdout)) {
        skip('the command mariadb or mysql is not there')
      }
      expect(await underLock(own)).toMatchObject({ exitCode: 0, stderr: '' })
    })

    test('a recipe without tables has nothing to do', async () => {
      const own = `${url}?recipe=${bare}`
      for (const print of [[], ['--print']]) {
        const { exitCode, stdout, stderr } = await bench.holdfast(['migrate', '--url', own, ...print])
        expect(stderr).toBe('holdfast: nothing to do: this store needs no tables\n')
        expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: '' })
      }
    })
  })
}

/** false where the command of MySQL or MariaDB is not there. */
function ranByMysql(port: number, sql: string): boolean {
  const args = [
    '--no-defaults',
    '--protocol=TCP',
    '-h',
    '127.0.0.1',
    '-P',
    String(port),
    '-u',
    'root',
    'holdfast',
  ]
  for (const program of ['mariadb', 'mysql']) {
    const { error, status, stderr } = spawnSync(program, args, {
      input: sql,
      encoding: 'utf8',
      timeout: 30_000,
    })
    if (error !== undefined) continue
    expect({ status, stderr }).toMatchObject({ status: 0 })
    return true
  }
  return false
}

describe('migrate', () => {
  const tableless = [
    'memory:',
    'redis://127.0.0.1:1',
    'zookeeper://127.0.0.1:1',
    'etcd://127.0.0.1:1',
    'consul://127.0.0.1:1',
    'memcached://127.0.0.1:1',
  ]
  test.each(tableless)('%s has nothing to do, and is not asked', async (url) => {
    const { exitCode, stderr } = await bench.holdfast(['migrate', '--url', url])
    expect(stderr).toBe('holdfast: nothing to do: this store needs no tables\n')
    expect(exitCode).toBe(0)
  })

  test('neither has the file per user', async () => {
    expect(await bench.holdfast(['migrate'])).toMatchObject({ exitCode: 0, stdout: '' })
  })

  test.each(['postgres', 'postgresql', 'mysql', 'mariadb'])(
    '--print for %s: needs no server',
    async (scheme) => {
      const url = `${scheme}://app:s3cret@127.0.0.1:1/shop?tablePrefix=shop.locks_`
      const printed = await bench.holdfast(['migrate', '--url', url, '--print'])
      expect(printed.stdout).toContain('CREATE TABLE IF NOT EXISTS shop.locks_places (')
      expect(printed).toMatchObject({ exitCode: 0, stderr: '' })
      const run = await bench.holdfast(['migrate', '--url', url])
      expect(run.stderr).toMatch(/^holdfast: [^\n]*was not reached[^\n]*\n$/)
      expect(run).toMatchObject({ exitCode: 69, stdout: '' })
      expect(printed.stdout + run.stderr).not.toContain('s3cret')
    },
  )

  test.each(['tablePrefix=a;b', 'tablePrefx=a_', 'recipe=row'])(
    '?%s is 64, with --print too',
    async (options) => {
      for (const print of [[], ['--print']]) {
        const url = `postgres://127.0.0.1:1/shop?${options}`
        const { exitCode, stdout, stderr } = await bench.holdfast(['migrate', '--url', url, ...print])
        expect(stderr).toMatch(/^holdfast: [^\n]*\n$/)
        expect({ exitCode, stdout }).toEqual({ exitCode: 64, stdout: '' })
      }
    },
  )
})
