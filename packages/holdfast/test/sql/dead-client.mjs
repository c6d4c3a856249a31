// @ts-check
// Holds a lock, or waits for one, with a statement running, until it is killed.
//
//     dead-client.mjs STORE RECIPE PORT NAME beside|inside|waiting
//
// `beside`: the statement runs over the same pool, on another connection. `inside`: on the connection of the transaction
// that has the lock. `waiting`: there is none, but a wait for the lock.
import { argv, stdout } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLocks } from 'holdfast'
import { mysqlBackend, mysqlTransactions } from 'holdfast/mysql'
import { postgresBackend, postgresTransactions } from 'holdfast/postgres'
import mysql from 'mysql2/promise'
import pg from 'pg'

const [store, recipe = '', port, name = '', what] = argv.slice(2)
const isPostgres = store === 'postgres'
const SLEEP = isPostgres ? 'SELECT pg_sleep(600)' : 'SELECT SLEEP(600)'
const pgPool = new pg.Pool({
  host: '127.0.0.1',
  port: Number(port),
  user: 'postgres',
  database: 'postgres',
  max: 6,
})
const mysqlPool = mysql.createPool({
  host: '127.0.0.1',
  port: Number(port),
  user: 'root',
  database: 'holdfast',
  connectionLimit: 6,
})
const ready = () => void stdout.write('ready\n')

if (what === 'inside') {
  const own = /** @type {'for-update' | 'advisory-xact'} */ (recipe)
  if (isPostgres) {
    const transactions = await postgresTransactions({ pool: pgPool, recipe: own })
    await transactions.transaction(name, async (tx) => {
      const sleeping = tx.query(SLEEP)
      await sleep(100)
      ready()
      await sleeping
    })
  } else {
    const transactions = await mysqlTransactions({ pool: mysqlPool })
    await transactions.transaction(name, async (tx) => {
      const sleeping = tx.query(SLEEP)
      await sleep(100)
      ready()
      await sleeping
    })
  }
} else {
  const backend = isPostgres
    ? postgresBackend({ pool: pgPool, recipe: /** @type {'rows'} */ (recipe) })
    : mysqlBackend({ pool: mysqlPool, recipe: /** @type {'rows'} */ (recipe) })
  const locks = await createLocks(backend)
  const acquiring = locks.mutex(name).acquire()
  if (what === 'beside') {
    await acquiring
    const sleeping = isPostgres ? pgPool.query(SLEEP) : mysqlPool.query(SLEEP)
    await sleep(100)
    ready()
    await sleeping
  } else {
    await sleep(300)
    ready()
    await acquiring
  }
}
