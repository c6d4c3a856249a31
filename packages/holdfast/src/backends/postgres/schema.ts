import { withPrefix } from '../sql/identifiers.js'
import type { SqlLink } from '../sql/link.js'
import { source } from './schema.sql'

/** The SQL that makes the tables and routines, for these names. */
export function schemaFor(prefix: string): string {
  return withPrefix(source, prefix)
}

export async function migrate(link: SqlLink, prefix: string): Promise<void> {
  await link.script(migrateText(schemaFor(prefix)))
}

/** One at a time: two that make the same table at once would see each other half way. */
export function migrateText(schema: string): string {
  return `BEGIN;\nSELECT pg_advisory_xact_lock(1212957766, 0);\n${schema}\nCOMMIT;`
}
