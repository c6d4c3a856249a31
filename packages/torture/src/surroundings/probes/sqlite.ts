import { createRequire } from 'node:module'
import { sqlitePathOf } from '../places.js'
import type { ServerProbe } from './probe.js'

interface Statement {
  all(): readonly Record<string, unknown>[]
}

interface Database {
  prepare(sql: string): Statement
  close(): void
}

const TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"

/** Rows of every table, and pages of the file. */
export function sqliteProbe(url: string): ServerProbe {
  return async () => {
    const Open = createRequire(import.meta.url)('libsql') as new (path: string) => Database
    const database = new Open(sqlitePathOf(url))
    const numberOf = (sql: string): number =>
      Number(Object.values(database.prepare(sql).all()[0] ?? {})[0] ?? 0)
    try {
      const tables = database.prepare(TABLES).all()
      return Object.fromEntries(
        tables.map(({ name }) => [
          `rows of ${String(name)}`,
          numberOf(`SELECT count(*) FROM ${String(name)}`),
        ]),
      )
    } finally {
      database.close()
    }
  }
}
