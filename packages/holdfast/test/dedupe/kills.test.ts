// @module-tag effects
/**
 * Four processes and up to 100 orders for each key. Each key has one owner that dies by kill -9, at one of five steps,
 * with rivals already waiting behind it. Whatever died, the effect is there exactly once for each key, and everybody who
 * got an answer got the same.
 *
 * Keys come in parties of ten. One process is told to make one order for each key of a party, parks each at its step, and
 * dies with all of them, after all four were told to make the others of each. Two parties are under way at a time, so a
 * process also dies in the middle of others. Orders that were lost with a process are sent again, as a client would, so in
 * the end each of them has its answer. SQLite has one writer at a time, so there a party is one key, and every fifth key
 * has an owner that dies. In a deep run every key of every database has, and 100 orders.
 */

import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { execPath } from 'node:process'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { expect, it, vi } from 'vitest'
import { atDepth, isDeep } from '../../../../test/support/depth.js'
import { titled } from '../../../../test/support/titled.js'
import { migrateDedupe } from '../../src/dedupe.js'
import { describeSql, type SqlStore } from '../support/sql-stores.js'

const KEYS = atDepth(50, 500)
const DUPLICATES = 100
/** Of five parties one has all its duplicates, and the others this many. In a deep run each key has 100. */
const FEWER = 10
// A deep run takes many minutes.
if (isDeep) vi.setConfig({ testTimeout: 3_600_000 })
const PROCESSES = 4
const CONNECTIONS = 12
const PARTY = 10
const AT_A_TIME = 2
const KILL_EVERY_IN_SQLITE = atDepth(5, 1)
const STEPS = ['before insert', 'after insert', 'after effect', 'before commit', 'after commit']

interface Job {
  readonly id: number
  readonly key: string
  readonly dieAt: string | null
}

interface Heard {
  readonly id: number
  readonly value?: string
  readonly parked?: string
  readonly error?: string
}

interface Tally {
  /** Every answer, by key. */
  readonly answers: Map<string, string[]>
  readonly errors: string[]
  /** How many died at each step. */
  readonly parked: Map<string, number>
  deaths: number
  /** Called after every answer. */
  heard: () => void
}

type Child = ChildProcessByStdio<Writable, Readable, null>

/** Starts processes ahead of need, since a machine that is busy takes long for it. */
class Nursery {
  readonly #start: () => Child
  #spare: Child

  constructor({ dialect, url }: SqlStore, effect: string) {
    const path = fileURLToPath(new URL('./buyer.mjs', import.meta.url))
    const args = [path, dialect, url, String(CONNECTIONS)]
    const env = { ...process.env, BUYER_EFFECT: effect }
    this.#start = () => spawn(execPath, args, { env, stdio: ['pipe', 'pipe', 'inherit'] })
    this.#spare = this.#start()
  }

  take(): Child {
    const child = this.#spare
    this.#spare = this.#start()
    return child
  }

  close(): void {
    this.#spare.kill('SIGKILL')
  }
}

/** One of the four places: a process, and another one when that has died. */
class Buyer {
  readonly #nursery: Nursery
  readonly #tally: Tally
  readonly #pending = new Map<number, Job>()
  #child: Child
  #isClosing = false
  #failure: Error | null = null
  #changed: () => void = () => {}

  constructor(nursery: Nursery, tally: Tally) {
    this.#nursery = nursery
    this.#tally = tally
    this.#child = this.#start()
  }

  #start(): Child {
    const child = this.#nursery.take()
    // What was written to a process that has died is sent again to the next one.
    child.stdin.on('error', () => {})
    createInterface({ input: child.stdout }).on('line', (line) => this.#hear(JSON.parse(line) as Heard))
    child.on('close', (code, signal) => {
      if (this.#isClosing) return
      if (signal !== 'SIGKILL') {
        this.#failure = new Error(`A buyer ended by itself, with ${code}; is the library built?`)
        this.#changed()
        this.#tally.errors.push(String(this.#failure))
        this.#tally.heard()
        return
      }
      this.#tally.deaths += 1
      this.#child = this.#start()
      // Nobody dies twice for the same key.
      const again = [...this.#pending.values()].map((job) => ({ ...job, dieAt: null }))
      this.#pending.clear()
      this.send(again)
    })
    return child
  }

  #hear({ id, value, parked, error }: Heard): void {
    const job = this.#pending.get(id)
    if (job === undefined) return
    if (parked !== undefined) {
      this.#tally.parked.set(parked, (this.#tally.parked.get(parked) ?? 0) + 1)
      this.#pending.set(id, { ...job, dieAt: null })
    } else {
      this.#pending.delete(id)
      if (error !== undefined) this.#tally.errors.push(error)
      else this.#tally.answers.set(job.key, [...(this.#tally.answers.get(job.key) ?? []), String(value)])
    }
    this.#changed()
    this.#tally.heard()
  }

  send(jobs: readonly Job[]): void {
    if (jobs.length === 0) return
    for (const job of jobs) this.#pending.set(job.id, job)
    this.#child.stdin.write(`${JSON.stringify({ jobs })}\n`)
  }

  /** Gives it one job for each key, each to die at its step, and waits until all have come so far. */
  async doom(jobs: readonly Job[]): Promise<void> {
    this.#child.stdin.write(`${JSON.stringify({ party: jobs.length })}\n`)
    this.send(jobs)
    await this.#until(() => jobs.every(({ id }) => (this.#pending.get(id)?.dieAt ?? null) === null))
  }

  async #until(isSo: () => boolean): Promise<void> {
    while (!isSo()) {
      if (this.#failure !== null) throw this.#failure
      await new Promise<void>((resolve) => {
        this.#changed = resolve
      })
    }
  }

  close(): void {
    this.#isClosing = true
    this.#child.kill('SIGKILL')
  }
}

interface CrowdOptions {
  readonly keys: number
  readonly effect: 'inside' | 'beside'
}

async function crowd(store: SqlStore, { keys, effect }: CrowdOptions): Promise<Tally> {
  const tally: Tally = { answers: new Map(), errors: [], parked: new Map(), deaths: 0, heard: () => {} }
  const nursery = new Nursery(store, effect)
  const buyers = Array.from({ length: PROCESSES }, () => new Buyer(nursery, tally))
  const isSqlite = store.dialect === 'sqlite'
  const party = isSqlite ? 1 : PARTY
  let id = 0
  const jobs = (names: readonly string[], dieAt: (index: number) => string | null): Job[] =>
    names.map((key, index) => {
      id += 1
      return { id, key, dieAt: dieAt(index) }
    })
  try {
    for (let first = 0; first < keys; first += party) {
      await answered(store, tally, first - (AT_A_TIME - 1) * party)
      const names = Array.from({ length: party }, (_, index) => `key ${first + index}`)
      const chosen = buyers[(first / party) % PROCESSES] as Buyer
      const dies = !isSqlite || first % KILL_EVERY_IN_SQLITE === 0
      const step = isSqlite ? first / KILL_EVERY_IN_SQLITE : first
      const stepOf = (index: number): string | null =>
        dies ? (STEPS[(step + index) % STEPS.length] ?? null) : null
      await chosen.doom(jobs(names, stepOf))
      for (let round = 1; round < duplicatesOf(store, first); round += 1) {
        buyers[round % PROCESSES]?.send(jobs(names, () => null))
      }
    }
    await answered(store, tally, keys)
  } finally {
    for (const buyer of buyers) buyer.close()
    nursery.close()
  }
  return tally
}

function duplicatesOf({ dialect }: SqlStore, key: number): number {
  const party = dialect === 'sqlite' ? key : Math.floor(key / PARTY)
  return isDeep || party % 5 === 0 ? DUPLICATES : FEWER
}

/** Waits until all orders for the first `keys` keys are answered. */
async function answered(store: SqlStore, tally: Tally, keys: number): Promise<void> {
  const isDone = (key: number): boolean =>
    tally.answers.get(`key ${key}`)?.length === duplicatesOf(store, key)
  for (let key = 0; key < keys; key += 1) {
    while (!isDone(key) && tally.errors.length === 0) {
      await new Promise<void>((resolve) => {
        tally.heard = resolve
      })
    }
  }
}

async function makeTables(store: SqlStore): Promise<void> {
  await migrateDedupe(store.db)
  await store.run('DELETE FROM holdfast_dedup')
  await store.run('DROP TABLE IF EXISTS effects')
  await store.run(`CREATE TABLE effects (name VARCHAR(40) NOT NULL, value VARCHAR(40) NOT NULL)`)
}

await describeSql('kill -9 of owners', (store) => {
  it(`31. duplicates from ${PROCESSES} processes for each of ${KEYS} keys have one effect each`, async () => {
    await makeTables(store)
    const since = performance.now()
    const { answers, errors, parked, deaths } = await crowd(store, { keys: KEYS, effect: 'inside' })
    const seconds = Math.round((performance.now() - since) / 1000)
    const orders = [...answers.values()].reduce((sum, values) => sum + values.length, 0)
    console.log(
      `kills: ${store.name}: ${KEYS} keys, ${orders} orders, ${deaths} processes killed, ` +
        `owners killed ${[...parked].map(([step, count]) => `${step}: ${count}`).join(', ')}; ${seconds} s`,
    )
    expect(errors).toEqual([])
    expect(answers.size).toBe(KEYS)
    for (let key = 0; key < KEYS; key += 1) {
      const values = answers.get(`key ${key}`) ?? []
      expect(values.length).toBe(duplicatesOf(store, key))
      expect(new Set(values).size).toBe(1)
    }
    const owners = store.dialect === 'sqlite' ? KEYS / KILL_EVERY_IN_SQLITE : KEYS
    for (const step of STEPS) expect(parked.get(step)).toBe(owners / STEPS.length)
    expect(await store.value('SELECT COUNT(*) FROM effects')).toBe(String(KEYS))
    for (const [key, [value]] of answers) {
      expect(await store.value(`SELECT value FROM effects WHERE name = '${key}'`)).toBe(value)
    }
  })

  const isSqlite = store.dialect === 'sqlite'
  const why = isSqlite ? 'does not apply: SQLite has one writer at a time' : null
  it.skipIf(isSqlite)(titled('would notice an effect that is not in the transaction', why), async () => {
    await makeTables(store)
    await crowd(store, { keys: PARTY, effect: 'beside' })
    expect(Number(await store.value('SELECT COUNT(*) FROM effects'))).toBeGreaterThan(PARTY)
  })
})
