import { withPrefix } from '../sql/identifiers.js'
import type { SqlLink } from '../sql/link.js'
import { source } from './schema.sql'

/** The SQL that makes the tables and routines, for these names, as the `mysql` command reads it. */
export function schemaFor(prefix: string): string {
  return withPrefix(source, prefix)
}

export async function migrate(link: SqlLink, prefix: string): Promise<void> {
  await link.script(migrateText(schemaFor(prefix)))
}

/**
 * One at a time, though two at once would do no harm. A routine that is there stays as it is, because others may be
 * calling it: its name has a version. MySQL before 8.0.29 has no IF NOT EXISTS for routines, so the link passes over the
 * error instead.
 */
export function migrateText(schema: string): string {
  const routines = schema.replaceAll('CREATE PROCEDURE IF NOT EXISTS', 'CREATE PROCEDURE')
  return `DO GET_LOCK('holdfast migrate', 10);\n${routines}\nDO RELEASE_LOCK('holdfast migrate');`
}

/** The statements of a text, by the rules of the `mysql` command: DELIMITER says what a statement ends with. */
export function splitScript(text: string): readonly string[] {
  const statements: string[] = []
  let delimiter = ';'
  let lines: string[] = []
  for (const line of text.split('\n')) {
    const change = /^DELIMITER (\S+)$/.exec(line)?.[1]
    if (change !== undefined) {
      delimiter = change
    } else if (line.endsWith(delimiter) && !line.startsWith('--')) {
      statements.push([...lines, line.slice(0, -delimiter.length)].join('\n').trim())
      lines = []
    } else if (line !== '' && !line.startsWith('--')) {
      lines.push(line)
    }
  }
  return statements
}
