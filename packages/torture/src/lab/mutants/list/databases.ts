import type { RecipeMutant } from '../mutant.js'
import { endedConnection } from '../trials/eviction.js'
import { extendedLease, skewedClock } from '../trials/leases.js'
import { middleLeaves, readerAsks, secondAsks, takeover } from '../trials/line.js'
import { lateRelease } from '../trials/release.js'
import { staleWriteToPostgres } from '../trials/writes.js'

const POSTGRES = 'holdfast/src/backends/postgres'
const postgres = { store: 'postgres', query: 'recipe=rows', file: `${POSTGRES}/schema.sql` }
const mariadb = {
  store: 'mariadb',
  query: 'recipe=rows',
  file: 'holdfast/src/backends/mysql/schema.sql',
}

export const DATABASE_MUTANTS: readonly RecipeMutant[] = [
  {
    ...postgres,
    name: 'rows: a reader let in beside a writer',
    find: 'v_admitted := v_sum + p_weight <= p_limit;',
    replace: 'v_admitted := v_sum <= p_limit;',
    trial: readerAsks,
    expects: 'reader-beside-writer',
  },
  {
    ...postgres,
    name: 'rows: fence of the one before used again',
    find: "fence := nextval('holdfast_fences');",
    replace: 'fence := (SELECT max(p.fence) FROM holdfast_places p WHERE p.resource = p_resource);',
    trial: takeover,
    expects: 'fence-reused',
  },
  {
    ...postgres,
    name: 'rows: release of whoever is first',
    find: 'WHERE p.resource = p_resource AND p.id = p_id AND p.expires_at > 0 FOR UPDATE;',
    replace: 'WHERE p.resource = p_resource AND p.expires_at > 0 ORDER BY p.seat LIMIT 1 FOR UPDATE;',
    trial: lateRelease,
    expects: 'overlap',
  },
  {
    ...postgres,
    name: 'rows: all who wait are told when one leaves',
    find: 'EXIT WHEN v_row.is_behind;',
    replace: '',
    trial: middleLeaves,
    expects: 'overlap',
  },
  {
    ...postgres,
    name: 'rows: renewal answered, but not written',
    file: `${POSTGRES}/line-table.ts`,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is a text of the source.
    find: 'SET expires_at = greatest(p.expires_at, ${NOW} + a.lease_us)',
    replace: 'SET expires_at = p.expires_at',
    trial: extendedLease,
    expects: 'overlap',
  },
  {
    ...postgres,
    name: 'advisory: the end of the connection not noticed',
    query: 'recipe=advisory',
    file: 'holdfast/src/backends/sessions/connection-backend.ts',
    find: 'held.session.onEnd(() => this.#lost(entry))',
    replace: '() => {}',
    trial: endedConnection,
    expects: 'overlap',
  },
  {
    ...postgres,
    name: 'guard of SQL: fences not compared',
    file: 'holdfast/src/fencing/sql-guard.ts',
    // biome-ignore-start lint/suspicious/noTemplateCurlyInString: they are texts of the source.
    find: 'const where = `${keyClause(statement, key)} AND ${fenceCondition(statement, column, fence)}`',
    replace: 'const where = keyClause(statement, key)',
    // biome-ignore-end lint/suspicious/noTemplateCurlyInString: as above.
    trial: staleWriteToPostgres,
    expects: 'stale-write-accepted',
  },
  {
    ...mariadb,
    name: 'rows: let in without counting',
    find: 'v_admitted = v_total + p_weight <= p_limit;',
    replace: 'v_admitted = TRUE;',
    trial: secondAsks,
    expects: 'overlap',
  },
  {
    ...mariadb,
    name: 'rows: release of whoever is there',
    find: 'FROM holdfast_places WHERE resource = p_resource AND id = p_id AND expires_at > 0 FOR UPDATE;',
    replace: 'FROM holdfast_places WHERE resource = p_resource AND expires_at > 0 LIMIT 1 FOR UPDATE;',
    trial: lateRelease,
    expects: 'overlap',
  },
  {
    store: 'sqlite',
    name: 'sqlite: leases end by the clock of whoever asks',
    file: 'holdfast/src/backends/sqlite/clock.ts',
    find: 'nowMs: () => Number(facts.monotonicNs() - offsetNs) / 1e6',
    replace: 'nowMs: () => Date.now()',
    trial: skewedClock,
    expects: 'overlap',
  },
]
