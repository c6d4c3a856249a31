/** One caller, one lock that nobody else wants: what taking it and giving it back costs. */

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect, createLocks, type Mutex } from 'holdfast'
import { sqliteBackend } from 'holdfast/sqlite'
import { lock as lockFile } from 'proper-lockfile'
import { type Contender, percentile } from '../rotation.js'
import { driver, openBare } from './database.js'

export interface Opened extends Contender {
  close(): Promise<void>
}

/** Acquire and release through the library, on a store of its own. */
function acquireAndRelease(name: string, mutex: Mutex, close: () => Promise<void>): Opened {
  return {
    name,
    close,
    async run(times) {
      for (let done = 0; done < times; done += 1) {
        const hold = await mutex.acquire()
        await hold.release()
      }
    },
  }
}

export async function holdfastOnSqlite(folder: string): Promise<Opened> {
  const locks = await createLocks(sqliteBackend({ path: join(folder, 'holdfast.db'), driver }))
  return acquireAndRelease('holdfast sqlite:', locks.mutex('bench'), () => locks.close())
}

export async function holdfastInMemory(): Promise<Opened> {
  const locks = await connect('memory:')
  return acquireAndRelease('holdfast memory:', locks.mutex('bench'), () => locks.close())
}

/** The least that any lock on this driver has to do: one row in, one row out, each in a transaction of its own. */
export async function bareTransactions(folder: string): Promise<Opened> {
  const database = openBare(join(folder, 'bare.db'))
  database.exec('PRAGMA journal_mode = WAL')
  database.exec('PRAGMA synchronous = NORMAL')
  database.exec('CREATE TABLE locks (name TEXT PRIMARY KEY, token TEXT, expires INTEGER)')
  const begin = database.prepare('BEGIN IMMEDIATE')
  const insert = database.prepare('INSERT INTO locks (name, token, expires) VALUES (?, ?, ?)')
  const remove = database.prepare('DELETE FROM locks WHERE name = ? AND token = ?')
  const commit = database.prepare('COMMIT')
  return {
    name: `bare ${driver} transactions`,
    async run(times) {
      for (let done = 0; done < times; done += 1) {
        begin.run()
        insert.run('bench', 'token', done)
        commit.run()
        begin.run()
        remove.run('bench', 'token')
        commit.run()
      }
    },
    async close() {
      database.close()
    },
  }
}

export async function properLockfile(folder: string): Promise<Opened> {
  const path = join(folder, 'guarded')
  await writeFile(path, '')
  return {
    name: 'proper-lockfile',
    async run(times) {
      for (let done = 0; done < times; done += 1) {
        const unlock = await lockFile(path)
        await unlock()
      }
    },
    async close() {},
  }
}

export interface Latency {
  readonly p50Us: number
  readonly p99Us: number
}

/** How long a single acquire takes, apart from the release. */
export async function acquireLatency(url: string, times: number): Promise<Latency> {
  const locks = await connect(url)
  const mutex = locks.mutex('bench')
  const tookUs: number[] = []
  for (let done = 0; done < times; done += 1) {
    const since = performance.now()
    const hold = await mutex.acquire()
    tookUs.push((performance.now() - since) * 1_000)
    await hold.release()
  }
  await locks.close()
  return { p50Us: percentile(tookUs, 50), p99Us: percentile(tookUs, 99) }
}
