/** The connections of a server, as it shows them. */

import type { ConnectionView } from '../sessions/connection-backend.js'
import type { SqlRunner, Statement } from '../sql/link.js'

/**
 * Not `information_schema.processlist`: MySQL reads all of that table, and fails with error 3854 as long as anybody runs
 * a statement with bytes in it that are no text.
 */
const PROCESSES: Statement = { name: 'holdfast_processes', text: 'SHOW PROCESSLIST' }

/** Where each connection comes from, by its number. Without the right PROCESS, only those of the same user. */
export async function processes(runner: SqlRunner): Promise<ReadonlyMap<string, string>> {
  const { rows } = await runner.run(PROCESSES)
  return new Map(rows.map((row) => [String(row['Id']), typeof row['Host'] === 'string' ? row['Host'] : '']))
}

/** Whose connection it is, by what the server sees of it. Since when it has the lock, nobody knows. */
export function connectionView(connection: string, host: string): ConnectionView {
  return { connection, host, pid: 0, client: `connection ${connection}`, ageMs: 0 }
}
