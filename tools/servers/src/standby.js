// @ts-check
// A second server that has the data of a first one by replication, and takes its place: another process on another port, with
// another identifier, and with connection numbers that begin again.
import { startMariadb } from './mariadb.js'
import { startMysql } from './mysql.js'
import { startPostgres } from './postgres.js'
import { startRedis } from './redis.js'
import { until } from './wait.js'

/**
 * @template Server
 * @typedef {object} Standby
 * @property {Server} server
 * @property {() => Promise<void>} inStep Waits until it has all that the first server has answered for until now.
 * @property {() => Promise<void>} promote From now on it takes writes, and asks the first server for nothing.
 */

/**
 * @template {{ dispose(): Promise<void> }} Server
 * @param {Server} server
 * @param {() => Promise<void>} attach
 */
async function attached(server, attach) {
  try {
    await attach()
    return server
  } catch (error) {
    await server.dispose()
    throw error
  }
}

/**
 * @param {import('./redis.js').RedisServer} master
 * @param {Pick<import('./redis.js').RedisOptions, 'persist' | 'clock'>} [options]
 * @returns {Promise<Standby<import('./redis.js').RedisServer>>}
 */
export async function startRedisReplica(master, options) {
  const server = await startRedis(options)
  await attached(server, async () => {
    await server.command('REPLICAOF', '127.0.0.1', master.port)
    await until('the replica is connected', async () => {
      return (await server.info('replication')).master_link_status === 'up'
    })
    // Until the first file is written, a crash would lose what came from the master.
    await until('the replica has written its file', async () => {
      const { aof_rewrite_in_progress: writing, aof_rewrite_scheduled: planned } =
        await server.info('persistence')
      return writing === '0' && planned === '0'
    })
  })
  return {
    server,
    inStep: async () => {
      await until('the replica has everything', async () => {
        const [there, here] = await Promise.all([master.info('replication'), server.info('replication')])
        return there.master_repl_offset === here.slave_repl_offset
      })
    },
    promote: async () => void (await server.command('REPLICAOF', 'NO', 'ONE')),
  }
}

/**
 * @param {import('./postgres.js').PostgresServer} primary
 * @param {import('./postgres.js').PostgresOptions} [options]
 * @returns {Promise<Standby<import('./postgres.js').PostgresServer>>}
 */
export async function startPostgresStandby(primary, options) {
  const server = await startPostgres({ ...options, standbyOf: primary })
  await attached(server, async () => {
    await until('the standby is connected', async () => {
      const [[count] = []] = await primary.query(
        "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'",
      )
      return Number(count) > 0
    })
  })
  return {
    server,
    inStep: async () => {
      const [[position] = []] = await primary.query('SELECT pg_current_wal_flush_lsn()')
      await until('the standby has everything', async () => {
        const [[has] = []] = await server.query(`SELECT pg_last_wal_receive_lsn() >= '${position}'::pg_lsn`)
        return has === 't'
      })
    },
    promote: async () => void (await server.query('SELECT pg_promote(true, 60)', { timeoutMs: 60_000 })),
  }
}

/** MySQL has given up the words master and slave, which MariaDB has kept. */
const kinds = {
  mysql: { start: startMysql, replica: 'REPLICA', source: 'SOURCE', change: 'CHANGE REPLICATION SOURCE TO' },
  mariadb: { start: startMariadb, replica: 'SLAVE', source: 'MASTER', change: 'CHANGE MASTER TO' },
}

/** What a server needs from its first start on, so that another one can follow it. @param {string} replica */
const replicatedArgs = (replica) => [
  '--log-bin=binlog',
  '--binlog-format=ROW',
  '--log-bin-trust-function-creators=ON',
  `--log-${replica.toLowerCase()}-updates=ON`,
  `--skip-${replica.toLowerCase()}-start`,
]
/** A new server begins to count its connections at a few, so this many are opened at most to get further. */
const numbersMax = 2_000

/**
 * Starts a server that another one can follow. Its log of changes begins with its data folder, which is a copy of the one that
 * every server here begins with.
 * @param {keyof typeof kinds} kind
 * @param {import('./mysql-family.js').MysqlOptions} [options]
 */
export function startMysqlSource(kind, { args = [], clock } = {}) {
  const id = 1 + Math.floor(Math.random() * 0x7fff_fffe)
  const { start, replica } = kinds[kind]
  return start({ args: [...replicatedArgs(replica), `--server-id=${id}`, ...args], clock })
}

/**
 * Its connection numbers go on where those of the source that are in use begin, as far as that is possible: a client that
 * knows a connection by its number only takes another one for its own.
 * @param {keyof typeof kinds} kind
 * @param {import('./mysql-family.js').MysqlServer} source Was started by `startMysqlSource`, or was promoted.
 * @param {import('./mysql-family.js').MysqlOptions} [options]
 * @returns {Promise<Standby<import('./mysql-family.js').MysqlServer>>}
 */
export async function startMysqlReplica(kind, source, options) {
  const { replica, source: first, change } = kinds[kind]
  const server = await startMysqlSource(kind, options)
  const inStep = () => follow(source, server, `${first}_POS_WAIT`)
  await attached(server, async () => {
    const from = [`HOST='127.0.0.1'`, `PORT=${source.port}`, `USER='root'`]
    const all = [...from, `LOG_FILE='binlog.000001'`, 'LOG_POS=4'].map((each) => `${first}_${each}`)
    await server.query(`${change} ${all.join(', ')}`)
    await server.query(`START ${replica}`)
    await inStep()
    await meetNumbers(source, server)
  })
  return {
    server,
    inStep,
    promote: async () => {
      await server.query(`STOP ${replica}`, { timeoutMs: 60_000 })
      await server.query(`RESET ${replica} ALL`, { timeoutMs: 60_000 })
    },
  }
}

/**
 * Waits until the replica has all that is in the source now.
 * @param {import('./mysql-family.js').MysqlServer} source
 * @param {import('./mysql-family.js').MysqlServer} replica
 * @param {string} wait The function that waits.
 */
async function follow(source, replica, wait) {
  // The newest file, as versions differ in how they are asked for their position.
  const [file, position] = (await source.query('SHOW BINARY LOGS')).at(-1) ?? []
  await until('the replica has everything', async () => {
    const [[waited] = []] = await replica.query(`SELECT ${wait}('${file}', ${position}, 2)`)
    return waited !== null && Number(waited) >= 0
  })
}

/**
 * @param {import('./mysql-family.js').MysqlServer} source
 * @param {import('./mysql-family.js').MysqlServer} replica
 */
async function meetNumbers(source, replica) {
  const rows = await source.query('SHOW PROCESSLIST')
  const inUse = rows.filter((row) => row[1] === 'root' && row[4] !== 'Binlog Dump' && row[4] !== 'Query')
  const lowest = Math.min(...inUse.map(([id]) => Number(id)))
  if (!Number.isFinite(lowest)) return
  for (let tries = 0; tries < numbersMax; tries += 1) {
    const [[id] = []] = await replica.query('SELECT CONNECTION_ID()')
    if (Number(id) >= lowest - 1) return
  }
}
