/** Whether the tables and routines are there, and whether this user may use them. Nothing is written to find out. */

import type { Finding } from '../../../core/doctor.js'
import { finding, ok } from '../../shared/doctor/findings.js'
import { withPrefix } from '../../sql/identifiers.js'
import type { SqlRunner, Statement } from '../../sql/link.js'
import { type Usage, unlessRefused } from './facts.js'

type Kind = 'TABLE' | 'SEQUENCE' | 'FUNCTION'

export interface Need {
  readonly kind: Kind
  readonly name: string
  readonly rights: readonly string[]
}

const table = (name: string, ...rights: string[]): Need => ({ kind: 'TABLE', name, rights })
const routine = (name: string): Need => ({ kind: 'FUNCTION', name, rights: ['EXECUTE'] })
const FENCES: Need = { kind: 'SEQUENCE', name: 'holdfast_fences', rights: ['USAGE'] }

/** What each recipe uses, with the rights that it takes. */
export const NEEDS: Readonly<Record<Usage['recipe'], readonly Need[]>> = {
  rows: [
    table('holdfast_places', 'SELECT', 'INSERT', 'UPDATE', 'DELETE'),
    FENCES,
    routine('holdfast_clear_v1'),
    routine('holdfast_want_v1'),
    routine('holdfast_admit_v1'),
    routine('holdfast_take_v1'),
    routine('holdfast_leave_v1'),
    routine('holdfast_sweep_v1'),
  ],
  'for-update': [table('holdfast_rows', 'SELECT', 'INSERT', 'UPDATE'), FENCES],
  advisory: [],
  'advisory-xact': [],
}

const looking = (kind: Kind, found: string): Statement => ({
  name: `holdfast_doctor_${kind.toLowerCase()}`,
  text: `SELECT f.oid IS NOT NULL AS is_there, r.right_name,
      has_${kind.toLowerCase()}_privilege(f.oid, r.right_name) AS is_given,
      (SELECT c.relpersistence = 'u' FROM pg_class c WHERE c.oid = f.oid) AS is_unlogged
    FROM (SELECT ${found}($1::text)::oid AS oid) f, unnest($2::text[]) AS r (right_name)`,
})
const LOOK: Readonly<Record<Kind, Statement>> = {
  TABLE: looking('TABLE', 'to_regclass'),
  SEQUENCE: looking('SEQUENCE', 'to_regclass'),
  FUNCTION: looking('FUNCTION', 'to_regproc'),
}

interface Seen {
  readonly missing: string[]
  readonly unlogged: string[]
  /** As GRANT takes them. */
  readonly grants: string[]
}

export async function checkTables(runner: SqlRunner, usage: Usage): Promise<Finding[]> {
  const needs = NEEDS[usage.recipe].map((need) => ({ ...need, name: withPrefix(need.name, usage.prefix) }))
  if (needs.length === 0) return [ok('tables', 'none are needed')]
  const seen: Seen = { missing: [], unlogged: [], grants: [] }
  for (const need of needs) {
    const isSeen = await unlessRefused(() => look(runner, need, seen))
    if (isSeen === null) {
      const [schema] = need.name.split('.')
      return [rights(`the schema of ${need.name} may not be used`, [`USAGE ON SCHEMA ${schema}`])]
    }
  }
  return judge(seen, needs)
}

async function look(runner: SqlRunner, { kind, name, rights: wanted }: Need, seen: Seen): Promise<true> {
  const { rows } = await runner.run(LOOK[kind], [name, wanted])
  if (rows[0]?.['is_there'] !== true) {
    seen.missing.push(name)
    return true
  }
  if (rows[0]['is_unlogged'] === true) seen.unlogged.push(name)
  const lacking = rows.filter((row) => row['is_given'] !== true).map((row) => String(row['right_name']))
  if (lacking.length > 0) seen.grants.push(`${lacking.join(', ')} ON ${kind} ${name}`)
  return true
}

function judge({ missing, unlogged, grants }: Seen, needs: readonly Need[]): Finding[] {
  if (missing.length > 0) {
    const found = `${missing.join(', ')} not there, or in a schema that is not on the \`search_path\`: nothing can be locked`
    const advice =
      'Run `holdfast migrate --url …` as a user who may make them, or give `tablePrefix` with the schema.'
    return [finding('danger', 'tables', found, advice)]
  }
  const findings: Finding[] = []
  if (unlogged.length > 0) {
    const found = `${unlogged.join(', ')} unlogged: a crash of the server empties it while holders go on`
    findings.push(finding('warning', 'tables', found, `\`ALTER TABLE ${unlogged[0]} SET LOGGED\`.`))
  } else findings.push(ok('tables', `all ${needs.length} tables and routines are there`))
  if (grants.length === 0) findings.push(ok('rights', 'all that are needed'))
  else findings.push(rights('this user may not use the tables and routines as needed', grants))
  return findings
}

function rights(found: string, grants: readonly string[]): Finding {
  const statements = grants.map((grant) => `GRANT ${grant} TO the user;`).join(' ')
  return finding('danger', 'rights', `${found}: nothing can be locked`, `Run \`${statements}\``)
}
