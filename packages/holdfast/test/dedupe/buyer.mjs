// @ts-check
// Makes orders that it is told to make, each in a transaction with `dedupe`, and dies where it is told to die.
//
//     buyer.mjs DIALECT URL CONNECTIONS
//
// A line in: `{ "id", "key", "dieAt" }`. A line out: `{ "id", "value", "replayed" }`, or `{ "id", "parked" }` when the
// step is reached at which to die. The process kills itself once as many are parked as the line `{ "party" }` says.
import { randomUUID } from 'node:crypto'
import { writeSync } from 'node:fs'
import { argv, env, exit, kill, pid, stdin } from 'node:process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { dedupe } from 'holdfast/dedupe'
import { retryOptimistic } from 'holdfast/optimistic'

/** @typedef {{ id: number, key: string, dieAt: string | null }} Job */
/**
 * @typedef {object} Connection
 * @property {import('holdfast/dedupe').SqlClient} client
 * @property {(sql: string) => Promise<void>} run
 * @property {() => void} release
 */

const [dialect, url = '', connections] = argv.slice(2)
/** Planted: the effect is not in the transaction. */
const isBeside = env['BUYER_EFFECT'] === 'beside'
/** How long rivals have to queue up behind those who are parked before they die. */
const GRACE_MS = 30

/** @param {object} message */
const say = (message) => void writeSync(1, `${JSON.stringify(message)}\n`)

let party = 1
let parked = 0

/**
 * @param {Job} job
 * @param {string} step
 */
async function step(job, step) {
  if (job.dieAt !== step) return
  say({ id: job.id, parked: step })
  parked += 1
  if (parked === party) {
    await sleep(GRACE_MS)
    kill(pid, 'SIGKILL')
  }
  await new Promise(() => {})
}

/**
 * @param {number} max
 * @returns {Promise<() => Promise<Connection>>}
 */
async function open(max) {
  if (dialect === 'postgres') {
    const { default: pg } = await import('pg')
    const pool = new pg.Pool({ connectionString: url, max })
    return async () => {
      const client = await pool.connect()
      return { client, run: async (sql) => void (await client.query(sql)), release: () => client.release() }
    }
  }
  if (dialect === 'mysql') {
    const { default: mysql } = await import('mysql2/promise')
    const pool = mysql.createPool({ uri: url, connectionLimit: max })
    return async () => {
      const client = await pool.getConnection()
      return { client, run: async (sql) => void (await client.query(sql)), release: () => client.release() }
    }
  }
  const { default: Database } = await import('libsql')
  const client = new Database(url.slice('sqlite:'.length))
  client.exec('PRAGMA busy_timeout = 20000')
  client.exec('PRAGMA synchronous = OFF')
  // One connection, which the jobs of this process take in turns.
  let turn = Promise.resolve()
  return async () => {
    const before = turn
    let release = () => {}
    turn = new Promise((resolve) => {
      release = () => resolve()
    })
    await before
    return { client, run: async (sql) => void client.exec(sql), release }
  }
}

const connect = await open(Number(connections))
const connectBeside = isBeside ? await open(1) : connect

/** @param {Job} job */
async function buy(job) {
  const tx = await connect()
  try {
    await tx.run(dialect === 'sqlite' ? 'BEGIN IMMEDIATE' : 'BEGIN')
    await step(job, 'before insert')
    const target = { scope: { tenant: 'shop', operation: 'buy' }, key: job.key, input: job.key }
    const outcome = await dedupe(tx.client, target, async () => {
      await step(job, 'after insert')
      const value = randomUUID()
      await effect(tx, `INSERT INTO effects VALUES ('${job.key}', '${value}')`)
      await step(job, 'after effect')
      return value
    })
    await step(job, 'before commit')
    await tx.run('COMMIT')
    await step(job, 'after commit')
    return outcome
  } catch (error) {
    await tx.run('ROLLBACK').catch(() => {})
    throw error
  } finally {
    tx.release()
  }
}

/**
 * @param {Connection} tx
 * @param {string} sql
 */
async function effect(tx, sql) {
  if (!isBeside) return await tx.run(sql)
  const other = await connectBeside()
  await other.run(sql)
  other.release()
}

/** @param {Job} job */
async function serve(job) {
  try {
    const { value, replayed } = await retryOptimistic(() => buy(job), { attempts: 200, baseMs: 2, maxMs: 50 })
    say({ id: job.id, value, replayed })
  } catch (error) {
    say({ id: job.id, error: String(error) })
  }
}

for await (const line of createInterface({ input: stdin })) {
  const message = JSON.parse(line)
  if ('party' in message) party = message.party
  else for (const job of message.jobs) void serve(job)
}
// Whoever gave the orders is gone.
exit()
