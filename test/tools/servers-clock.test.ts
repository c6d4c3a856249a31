import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  clockPrograms,
  makeClock,
  missingPrograms,
  missingReason,
  type ServerProcess,
  startMariadb,
  startMemcached,
  startMysql,
  startPostgres,
  startRedis,
} from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'

const HOUR_MS = 3_600_000
/** How far two clocks may be apart that are the same one, on a machine that is busy. */
const NEAR_MS = 20_000

type Started<S extends ServerProcess> = { readonly server: S; readonly now: () => Promise<number> }

/** What time it is at each server that goes by its wall clock. */
const SERVERS: Readonly<Record<string, { program: string; start: () => Promise<Started<ServerProcess>> }>> = {
  redis: {
    program: 'redis-server',
    start: async () => {
      const server = await startRedis({ clock: true, persist: true })
      const now = async () => Number(((await server.command('TIME')) as string[])[0]) * 1_000
      return { server, now }
    },
  },
  postgres: {
    program: 'postgres',
    start: async () => {
      const server = await startPostgres({ clock: true })
      const sql = 'SELECT extract(epoch FROM clock_timestamp()) * 1000'
      return { server, now: async () => Number((await server.query(sql))[0]?.[0]) }
    },
  },
  mariadb: { program: 'mariadbd', start: () => mysqlFamily(startMariadb) },
  mysql: { program: 'mysqld', start: () => mysqlFamily(startMysql) },
}

async function mysqlFamily(start: typeof startMariadb): Promise<Started<ServerProcess>> {
  const server = await start({ clock: true })
  const sql = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1000"
  return { server, now: async () => Number((await server.query(sql))[0]?.[0]) }
}

/** Reports what is missing as left out; where everything is required, it is an error. */
function whereThere(program: string, title: string, test: () => Promise<void>): void {
  const missing = missingPrograms([program, ...clockPrograms])
  if (missing.length === 0) return it(title, test)
  if (process.env['HOLDFAST_REQUIRE_STORES'] === 'all') throw new Error(missingReason(missing))
  it.skip(`${title} (not run: ${missingReason(missing)})`)
}

describe('a server with a clock of its own', () => {
  for (const [name, { program, start }] of Object.entries(SERVERS)) {
    whereThere(program, `${name} goes by it, also after a restart`, async () => {
      const { server, now } = await start()
      onTestFinished(() => server.dispose())
      const isAhead = async (ms: number) => {
        expect(Math.abs((await now()) - (Date.now() + ms))).toBeLessThan(NEAR_MS)
        expect(server.clockOffsetMs).toBe(ms)
      }
      await isAhead(0)
      server.stepClock(HOUR_MS)
      await isAhead(HOUR_MS)
      await server.kill()
      await server.restart()
      await isAhead(HOUR_MS)
      server.stepClock(-2 * HOUR_MS)
      await isAhead(-HOUR_MS)
      server.stepClock(HOUR_MS)
      await isAhead(0)
    })
  }

  whereThere('memcached', 'memcached does not care', async () => {
    const server = await startMemcached({ clock: true })
    onTestFinished(() => server.dispose())
    await server.command('set a 0 1000 1\r\nx')
    server.stepClock(HOUR_MS)
    // It looks at its clock once a second.
    await sleep(2_500)
    expect(await server.command('mg a t')).toMatch(/^HD t9/)
  })

  whereThere('redis-server', 'is something that has to be asked for', async () => {
    const server = await startRedis()
    onTestFinished(() => server.dispose())
    expect(() => server.stepClock(1)).toThrow('without `clock`')
    expect(server.clockOffsetMs).toBe(0)
  })
})

describe('makeClock', () => {
  whereThere('gcc', 'gives a process of Node.js another wall clock, and leaves the other one', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-clock-test-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const clock = await makeClock(folder)
    const script = `process.stdin.on('data', () => console.log(Date.now(), process.hrtime.bigint() / 1000000n))`
    const child = spawn(process.execPath, ['-e', script], { env: { ...process.env, ...clock.env } })
    onTestFinished(() => void child.kill('SIGKILL'))
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
    const ask = async () => {
      child.stdin.write('?')
      const [wall, monotonic] = String((await lines.next()).value).split(' ')
      const own = Number(process.hrtime.bigint() / 1_000_000n)
      return { wall: Number(wall) - Date.now(), monotonic: Number(monotonic?.replace('n', '')) - own }
    }
    expect(Math.abs((await ask()).wall)).toBeLessThan(NEAR_MS)
    clock.step(-HOUR_MS)
    const { wall, monotonic } = await ask()
    expect(Math.abs(wall + HOUR_MS)).toBeLessThan(NEAR_MS)
    expect(Math.abs(monotonic)).toBeLessThan(NEAR_MS)
  })
})
