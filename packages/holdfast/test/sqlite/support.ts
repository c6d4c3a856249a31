import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type SqliteOptions, sqliteBackend } from '../../src/backends/sqlite/backend.js'
import type { SqliteDatabase } from '../../src/backends/sqlite/client.js'
import type { Machine } from '../../src/backends/sqlite/clock.js'
import { pickDriver } from '../../src/backends/sqlite/driver.js'
import type { Backend, Claim, Patience } from '../../src/core/backend.js'
import { NO_SINK } from '../support/claims.js'

export { claimOf, NO_SINK } from '../support/claims.js'

export const NOW_OR_NEVER: Patience = { waitMs: 0, leaseMs: 1_000 }
export const PATIENT: Patience = { waitMs: 5_000, leaseMs: 1_000 }

export async function tempFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-sqlite-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

export async function tempPath(): Promise<string> {
  return join(await tempFolder(), 'locks.db')
}

/** A machine whose clock the test moves. */
export class FakeMachine implements Machine {
  now = 1_000
  bootId: string

  constructor(bootId = 'boot-one') {
    this.bootId = bootId
  }

  nowMs(): number {
    return this.now
  }
}

export async function openBackend(options: SqliteOptions): Promise<Backend> {
  const backend = sqliteBackend(options)
  onTestFinished(() => backend.close())
  await backend.open(NO_SINK)
  return backend
}

/** A plain connection of the same driver, to look from outside. */
export async function openRaw(path: string): Promise<SqliteDatabase> {
  const Database = await pickDriver(undefined)
  const database = new Database(path)
  let open = true
  onTestFinished(() => {
    if (open) database.close()
  })
  return {
    exec: (sql) => database.exec(sql),
    prepare: (sql) => database.prepare(sql),
    close: () => {
      open = false
      database.close()
    },
  }
}

export async function fenceOf(backend: Backend, claim: Claim): Promise<bigint> {
  const verdict = await backend.attempt(claim, PATIENT)
  if (verdict.kind !== 'granted' && verdict.kind !== 'waiting') throw new Error(`Unexpected ${verdict.kind}`)
  if (verdict.fence === null) throw new Error('No fence')
  return verdict.fence
}

export function value(database: SqliteDatabase, sql: string): unknown {
  const row = database.prepare(sql).all()[0]
  return typeof row === 'object' && row !== null ? Object.values(row)[0] : undefined
}
