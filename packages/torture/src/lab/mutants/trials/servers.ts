/** Another server behind the same address: what a client knows of the first one proves nothing any more. */

import {
  type MysqlServer,
  startMysqlReplica,
  startMysqlSource,
  startRedisMasters,
  type TcpProxy,
} from 'holdfast-servers'
import type { Play } from '../play.js'
import type { Trial } from '../trial.js'

const TTL_MS = 60_000
const WAIT_MS = 20_000
/** Before the first client comes, so that the second server has not got to its connection number by itself. */
const NUMBERS_BEFORE = 60

/**
 * A replica takes the place of the server. The connection that has A's lock stays open at A without a word; A's other
 * connections reach the new server, where another connection has the same number. A asks there whether it still has its
 * lock, and B takes the lock afterwards.
 */
export const replacedDatabase: Trial = {
  name: 'database replaced',
  run: async (play) => {
    const { scene } = play
    const first = scene.own(await startMysqlSource('mariadb'))
    play.url = first.url
    await play.operator()
    for (let count = 0; count < NUMBERS_BEFORE; count += 1) await first.query('SELECT 1')
    const relay = await scene.relay(first.port)
    const a = await play.actor('A', { relay })
    await a.acquire({ ttlMs: TTL_MS })
    const number = await numberOfTransaction(first)
    scene.faultBegins('server-swap', 'mariadb')
    const next = await replace(play, first, relay)
    const stranger = await strangerWith(play, next, number)
    scene.say(
      `Another transaction has the row at the new server; its connection number is ${number}, like A's.`,
    )
    await a.extend()
    await stranger.end()
    play.url = next.url
    const b = await play.actor('B')
    await b.acquire({ ttlMs: TTL_MS, waitMs: WAIT_MS })
    scene.faultEnds('server-swap', 'mariadb')
    await a.assert()
    await b.release()
  },
}

async function numberOfTransaction(server: MysqlServer): Promise<number> {
  const rows = await server.query('SELECT trx_mysql_thread_id FROM information_schema.innodb_trx')
  if (rows.length !== 1) throw new Error(`Expected one transaction, found ${rows.length}.`)
  return Number(rows[0]?.[0])
}

async function replace({ scene }: Play, first: MysqlServer, relay: TcpProxy): Promise<MysqlServer> {
  const { server, inStep, promote } = await startMysqlReplica('mariadb', first)
  scene.own(server)
  relay.hold(true)
  await inStep()
  await first.kill()
  await promote()
  relay.redirect(server.port)
  // The first connection of a client is the one that asks after the others.
  relay.halfOpen(({ index }) => index > 0)
  relay.cut(({ isHalfOpen }) => !isHalfOpen)
  relay.hold(false)
  return server
}

/** A transaction of another process that has the row of the lock, over a connection with the given number. */
async function strangerWith(
  { url }: Play,
  server: MysqlServer,
  number: number,
): Promise<{ readonly end: () => Promise<void> }> {
  const { default: mysql } = await import('mysql2/promise')
  const table = `${/tablePrefix=(\w+)/.exec(url)?.[1] ?? 'holdfast_'}rows`
  for (;;) {
    const connection = await mysql.createConnection(server.url)
    if (connection.threadId > number) throw new Error('The new server has passed the number already.')
    if (connection.threadId < number) {
      await connection.end()
      continue
    }
    await connection.query('START TRANSACTION')
    await connection.query(`SELECT 1 FROM ${table} FOR UPDATE`)
    await connection.query(`UPDATE ${table} SET holder = (CAST(7 AS UNSIGNED) << 32) | CONNECTION_ID()`)
    return {
      end: async () => {
        await connection.query('ROLLBACK')
        await connection.end()
      },
    }
  }
}

/**
 * A has three masters of five. Then three addresses of B lead to the fourth master, as after a change of a name or of a virtual
 * address, which is then asked four times and has one vote.
 */
export const sameServerTwice: Trial = {
  name: 'addresses merged',
  run: async (play) => {
    const { scene } = play
    const { servers } = scene.own(await startRedisMasters(5))
    const relaysTo = (): Promise<readonly TcpProxy[]> =>
      Promise.all(servers.map(({ port }) => scene.relay(port)))
    const [ofA, ofB] = [await relaysTo(), await relaysTo()]
    play.query = 'nodeMs=1500&restartDelayMs=0'
    play.url = urlOf(ofA)
    const a = await play.actor('A')
    play.url = urlOf(ofB)
    const b = await play.actor('B')
    scene.faultBegins('partition', 'A')
    for (const relay of ofA.slice(3)) {
      relay.refuse(true)
      relay.cut()
    }
    await a.acquire({ ttlMs: TTL_MS, waitMs: WAIT_MS })
    scene.faultBegins('server-swap', 'B')
    for (const relay of ofB.slice(0, 3)) {
      relay.redirect(servers[3]?.port ?? 0)
      relay.cut()
    }
    // Its client needs a moment to connect again, and then it is refused or gets the lock.
    await scene.tries(b.acquire({ ttlMs: TTL_MS, waitMs: 3_000 }))
    await a.assert()
    await scene.tries(b.release())
    await a.release()
  },
}

function urlOf(relays: readonly TcpProxy[]): string {
  return `redis+redlock://${relays.map(({ port }) => `127.0.0.1:${port}`).join(',')}`
}
