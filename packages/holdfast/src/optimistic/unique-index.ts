import type { Database } from '../tables/database.js'
import { checkTable } from '../tables/identifiers.js'

/** For each connection what was found, by table and columns. Only what is there is remembered. */
const known = new WeakMap<object, Set<string>>()

/** MySQL and MariaDB insert a second row without a word if no index forbids it, so they are asked once for each table. */
export async function hasUniqueIndex(
  database: Database,
  table: string,
  columns: readonly string[],
): Promise<boolean> {
  const wanted = columns
    .map((column) => column.toLowerCase())
    .sort()
    .join(' ')
  const found = known.get(database.identity) ?? new Set<string>()
  known.set(database.identity, found)
  const place = `${table}: ${wanted}`
  if (found.has(place)) return true
  const { schema, name } = checkTable(table)
  // An index on the beginning of a column would take different values for equal.
  const text =
    'SELECT index_name AS of_index, column_name AS of_column, sub_part AS part FROM information_schema.statistics ' +
    'WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ? AND non_unique = 0'
  const indexes = new Map<string, string[]>()
  for (const row of await database.rows(text, [schema, name])) {
    const index = String(row['of_index'])
    const column = row['part'] === null ? String(row['of_column']).toLowerCase() : ''
    indexes.set(index, [...(indexes.get(index) ?? []), column])
  }
  const isThere = [...indexes.values()].some((index) => index.sort().join(' ') === wanted)
  if (isThere) found.add(place)
  return isThere
}
