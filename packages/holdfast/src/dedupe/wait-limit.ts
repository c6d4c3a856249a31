/** How long a statement may wait for a lock, set for a moment in a session that belongs to somebody else. */

import type { Database } from '../tables/database.js'

/** `waitMs` null: as the session has it. */
export async function waitingAtMost<T>(
  database: Database,
  waitMs: number | null,
  work: () => Promise<T>,
): Promise<T> {
  if (waitMs === null) return await work()
  switch (database.dialect) {
    case 'postgres':
      return await pgWaiting(database, waitMs, work)
    case 'mysql':
      return await mysqlWaiting(database, waitMs, work)
    case 'sqlite':
      return await sqliteWaiting(database, waitMs, work)
  }
}

/**
 * 0 would mean for ever. After an error the transaction or the savepoint is rolled back, and with it the setting, whereas
 * a statement that puts it back would be refused.
 */
async function pgWaiting<T>(database: Database, waitMs: number, work: () => Promise<T>): Promise<T> {
  const text =
    "SELECT before, set_config('lock_timeout', $1, true) FROM (SELECT current_setting('lock_timeout') AS before OFFSET 0) AS it"
  const [row] = await database.rows(text, [`${Math.max(1, waitMs)}ms`])
  const value = await work()
  await database.rows("SELECT set_config('lock_timeout', $1, true)", [row?.['before'] ?? '0'])
  return value
}

/** It counts in whole seconds, and 0 is not allowed everywhere. */
async function mysqlWaiting<T>(database: Database, waitMs: number, work: () => Promise<T>): Promise<T> {
  const seconds = Math.max(1, Math.ceil(waitMs / 1_000))
  await database.command(
    'SET @holdfast_lock_wait = @@SESSION.innodb_lock_wait_timeout, ' +
      `SESSION innodb_lock_wait_timeout = ${seconds}`,
  )
  return await andThen(work, () =>
    database.command('SET SESSION innodb_lock_wait_timeout = @holdfast_lock_wait'),
  )
}

async function sqliteWaiting<T>(database: Database, waitMs: number, work: () => Promise<T>): Promise<T> {
  const [row] = await database.rows('PRAGMA busy_timeout')
  const before = Number(Object.values(row ?? {})[0] ?? 0)
  await database.command(`PRAGMA busy_timeout = ${waitMs}`)
  return await andThen(work, () => database.command(`PRAGMA busy_timeout = ${before}`))
}

/** Puts the setting back whatever comes of the work. An error of the work is what matters then. */
async function andThen<T>(work: () => Promise<T>, restore: () => Promise<void>): Promise<T> {
  let value: T
  try {
    value = await work()
  } catch (error) {
    await restore().catch(() => {})
    throw error
  }
  await restore()
  return value
}
