/** Connections that outlive a caller must not keep its async context. */

import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import type { MysqlPool } from '../../src/backends/mysql/client.js'
import { mysqlLink } from '../../src/backends/mysql/link.js'
import type { PgPool } from '../../src/backends/postgres/client.js'
import { pgLink } from '../../src/backends/postgres/link.js'
import { HttpClient } from '../../src/backends/shared/http-client.js'
import { KeptSession } from '../../src/backends/sql/kept-session.js'

const request = new AsyncLocalStorage<string>()
const STATEMENT = { name: 'one', text: 'SELECT 1', isPlain: true } as const
const end = async (): Promise<void> => {}

/** Notes in which context a connection is made, asked and given back. */
class NotingClient extends EventEmitter {
  readonly seen: Record<string, string | undefined> = {}

  note(what: string): void {
    this.seen[what] = request.getStore()
  }

  async query(...args: readonly unknown[]): Promise<unknown> {
    this.note('query')
    const done = args.at(-1)
    if (typeof done === 'function') done(null, [])
    return { rows: [], rowCount: 0 }
  }

  release(): void {
    this.note('release')
  }
}

const expected = { connect: undefined, query: 'caller', release: undefined }

it('PostgreSQL: makes connections and gives them back in the context of no caller, and asks in that of the caller', async () => {
  const client = new NotingClient()
  const pool = Object.assign(new EventEmitter(), {
    connect: async () => {
      client.note('connect')
      return client
    },
  })
  const link = pgLink(pool as unknown as PgPool, { prepare: false, end })
  await request.run('caller', () => link.run(STATEMENT))
  expect(client.seen).toEqual(expected)
})

it('MySQL: makes connections and gives them back in the context of no caller, and asks in that of the caller', async () => {
  const client = new NotingClient()
  const pool = {
    pool: {
      getConnection: (done: (error: null, connection: NotingClient) => void) => {
        client.note('connect')
        done(null, client)
      },
    },
  }
  const link = mysqlLink(pool as unknown as MysqlPool, { end })
  await request.run('caller', () => link.run(STATEMENT))
  expect(client.seen).toEqual(expected)
})

it('a connection that is kept for all callers is prepared in the context of no caller', async () => {
  const seen: (string | undefined)[] = []
  const session = { isEnded: false, destroy: () => {} }
  const kept = new KeptSession({ session: async () => session } as never, {
    prepare: async () => void seen.push(request.getStore()),
    idOf: async () => '1',
  })
  await request.run('caller', () => kept.ready())
  expect(seen).toEqual([undefined])
})

it('HTTP: sends requests in the context of no caller', async () => {
  const server = createServer((_, response) => response.end('{}'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const troubles = {
    transport: (error: unknown) => error,
    late: () => new Error('late'),
    tooLong: () => new Error('too long'),
    closed: () => new Error('closed'),
  }
  const setting = { tls: null, headers: {}, requestMs: 30_000, socketsMax: 1, answerBytesMax: 100, troubles }
  const client = new HttpClient(setting)
  const seen: (string | undefined)[] = []
  const note = (): void => void seen.push(request.getStore())
  subscribe('http.client.request.start', note)
  await request.run('caller', () => client.ask({ host: '127.0.0.1', port }, { method: 'GET', path: '/' }))
  unsubscribe('http.client.request.start', note)
  client.close()
  server.close()
  expect(seen).toEqual([undefined])
})
