// @module-tag exclusion
import {
  missingPrograms,
  missingReason,
  type Standby,
  startMysqlReplica,
  startMysqlSource,
  startPostgres,
  startPostgresStandby,
  startRedis,
  startRedisReplica,
} from 'holdfast-servers'
import { expect, it, onTestFinished } from 'vitest'
import { titled } from '../support/titled.js'

interface Server {
  readonly port: number
  kill(): Promise<void>
  restart(): Promise<void>
  dispose(): Promise<void>
}

interface Family<S extends Server> {
  readonly program: string
  readonly start: () => Promise<S>
  readonly follow: (server: S) => Promise<Standby<S>>
  readonly write: (server: S, value: number) => Promise<unknown>
  readonly read: (server: S) => Promise<readonly number[]>
}

function kept<S extends Server>(server: S): S {
  onTestFinished(() => server.dispose())
  return server
}

function describeFamily<S extends Server>(name: string, family: Family<S>): void {
  const { program, start, follow, write, read } = family
  const missing = missingPrograms([program])
  const reason = missing.length === 0 ? null : missingReason(missing)
  it.skipIf(reason !== null)(
    titled(
      `${name}: a standby has all that was answered, takes the place of the first, and has a standby itself`,
      reason,
    ),
    async () => {
      let server = kept(await start())
      await write(server, 1)
      for (const value of [2, 3]) {
        const { server: next, inStep, promote } = await follow(server)
        kept(next)
        await write(server, value)
        await inStep()
        await server.kill()
        await promote()
        expect(next.port).not.toBe(server.port)
        server = next
      }
      await write(server, 4)
      // What it got as a standby is as safe from a crash as what it was told itself.
      await server.kill()
      await server.restart()
      expect(await read(server)).toEqual([1, 2, 3, 4])
    },
  )
}

const CREATE = 'CREATE TABLE IF NOT EXISTS numbers (n int)'
const insert = (value: number): string => `INSERT INTO numbers VALUES (${value})`
const SELECT = 'SELECT n FROM numbers ORDER BY n'

describeFamily('redis', {
  program: 'redis-server',
  start: () => startRedis({ persist: true }),
  follow: (server) => startRedisReplica(server, { persist: true }),
  write: (server, value) => server.command('RPUSH', 'numbers', value),
  read: async (server) =>
    ((await server.command('LRANGE', 'numbers', 0, -1)) as readonly unknown[]).map(Number),
})

describeFamily('postgres', {
  program: 'postgres',
  start: () => startPostgres(),
  follow: (server) => startPostgresStandby(server),
  write: (server, value) => server.query(`${CREATE}; ${insert(value)}`),
  read: async (server) => (await server.query(SELECT)).map(([n]) => Number(n)),
})

const MYSQL = [
  ['mysql', 'mysqld'],
  ['mariadb', 'mariadbd'],
] as const

for (const [kind, program] of MYSQL) {
  describeFamily(kind, {
    program,
    start: () => startMysqlSource(kind),
    follow: (server) => startMysqlReplica(kind, server),
    write: async (server, value) => {
      await server.query(CREATE)
      await server.query(insert(value))
    },
    read: async (server) => (await server.query(SELECT)).map(([n]) => Number(n)),
  })
}
