/**
 * Whether the tables and routines are there, and whether this user may use them. Nothing is done to find out: EXPLAIN asks
 * for the rights of the statement that it explains, and a routine that is called with too few arguments is refused after
 * the rights were looked at and before it runs.
 */

import type { Finding } from '../../../core/doctor.js'
import { finding, ok } from '../../shared/doctor/findings.js'
import { withPrefix } from '../../sql/identifiers.js'
import type { SqlRunner, Statement } from '../../sql/link.js'
import { refusalOf, type Usage } from './facts.js'

export interface Need {
  readonly name: string
  readonly rights: readonly string[]
  /** A column to name in statements that are never run. */
  readonly column: string
}

const PLACES: Need = {
  name: 'holdfast_places',
  rights: ['SELECT', 'INSERT', 'UPDATE', 'DELETE'],
  column: 'fence',
}
const SLOTS: Need = { name: 'holdfast_slots', rights: ['SELECT', 'UPDATE'], column: 'fence' }
const ROWS: Need = { name: 'holdfast_rows', rights: ['SELECT', 'INSERT', 'UPDATE'], column: 'holder' }

/** What each recipe uses, with the rights that it takes. Routines take EXECUTE. */
export const NEEDS: Readonly<
  Record<Usage['recipe'], { readonly tables: readonly Need[]; readonly routines: readonly string[] }>
> = {
  rows: {
    tables: [PLACES, SLOTS],
    routines: [
      'holdfast_take_v1',
      'holdfast_clear_v1',
      'holdfast_renew_v1',
      'holdfast_leave_v1',
      'holdfast_sweep_v1',
    ],
  },
  'for-update': { tables: [ROWS, SLOTS], routines: [] },
  'get-lock': { tables: [], routines: [] },
}

const SLOT_COUNT = 256

const NO_SUCH_TABLE = 1146
const NO_SUCH_ROUTINE = 1305
const WRONG_ARGUMENTS = 1318
const DENIED: ReadonlySet<number> = new Set([1044, 1142, 1143, 1370])

interface Seen {
  readonly missing: Set<string>
  /** As GRANT takes them. */
  readonly grants: string[]
}

export async function checkTables(runner: SqlRunner, usage: Usage): Promise<Finding[]> {
  const { tables, routines } = NEEDS[usage.recipe]
  if (tables.length === 0) return [ok('tables', 'none are needed')]
  const seen: Seen = { missing: new Set(), grants: [] }
  const named = tables.map((table) => ({ ...table, name: withPrefix(table.name, usage.prefix) }))
  for (const table of named) await lookAtTable(runner, table, seen)
  for (const routine of routines) await lookAtRoutine(runner, withPrefix(routine, usage.prefix), seen)
  if (seen.missing.size > 0) {
    const found = `${[...seen.missing].join(', ')} not there: nothing can be locked`
    return [finding('danger', 'tables', found, 'Run `holdfast migrate --url …` as a user who may make them.')]
  }
  if (seen.grants.length > 0) {
    const statements = seen.grants.map((grant) => `GRANT ${grant} TO the user;`).join(' ')
    const found =
      'this user may not use the tables and routines, or they are not there: nothing can be locked'
    const advice = `Run \`holdfast migrate --url …\` if that was not done, and \`${statements}\``
    return [finding('danger', 'rights', found, advice)]
  }
  const present = tables.length + routines.length
  const faults = [...(await checkEngines(runner, named)), ...(await checkSlots(runner, usage))]
  return [
    ...(faults.length > 0
      ? faults
      : [ok('tables', `all ${present} tables and routines are there, in InnoDB`)]),
    ok('rights', 'all that are needed'),
  ]
}

async function lookAtTable(runner: SqlRunner, { name, rights, column }: Need, seen: Seen): Promise<void> {
  const texts: Readonly<Record<string, string>> = {
    SELECT: `EXPLAIN SELECT * FROM ${name}`,
    INSERT: `EXPLAIN INSERT INTO ${name} SELECT * FROM ${name}`,
    UPDATE: `EXPLAIN UPDATE ${name} SET ${column} = ${column} WHERE ${column} = 0`,
    DELETE: `EXPLAIN DELETE FROM ${name} WHERE ${column} = 0`,
  }
  const lacking: string[] = []
  for (const right of rights) {
    const refusal = await refusedWith(runner, `${name}_${right}`, texts[right] as string)
    if (refusal === NO_SUCH_TABLE) seen.missing.add(name)
    else if (refusal !== null && DENIED.has(refusal)) lacking.push(right)
  }
  if (lacking.length > 0) seen.grants.push(`${lacking.join(', ')} ON ${name}`)
}

async function lookAtRoutine(runner: SqlRunner, name: string, seen: Seen): Promise<void> {
  const refusal = await refusedWith(runner, name, `CALL ${name}()`)
  if (refusal === NO_SUCH_ROUTINE) seen.missing.add(name)
  else if (refusal !== null && DENIED.has(refusal)) seen.grants.push(`EXECUTE ON PROCEDURE ${name}`)
}

const TOLD: ReadonlySet<number> = new Set([NO_SUCH_TABLE, NO_SUCH_ROUTINE, WRONG_ARGUMENTS, ...DENIED])

async function refusedWith(runner: SqlRunner, name: string, text: string): Promise<number | null> {
  try {
    await runner.run({ name: `holdfast_doctor_${name}`, text })
    return null
  } catch (error) {
    const refusal = refusalOf(error)
    if (refusal === null || !TOLD.has(refusal)) throw error
    return refusal
  }
}

const ENGINES: Statement = {
  name: 'holdfast_doctor_engines',
  text: `SELECT TABLE_NAME AS table_name, ENGINE AS engine FROM information_schema.TABLES
    WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND FIND_IN_SET(TABLE_NAME, ?)`,
}

async function checkEngines(runner: SqlRunner, tables: readonly Need[]): Promise<Finding[]> {
  const paths = tables.map(({ name }) => name.split('.'))
  const schema = paths[0]?.length === 2 ? paths[0][0] : null
  const { rows } = await runner.run(ENGINES, [schema, paths.map((path) => path.at(-1)).join(',')])
  return rows
    .filter((row) => String(row['engine']).toLowerCase() !== 'innodb')
    .map((row) => {
      const found = `${String(row['table_name'])} is in ${String(row['engine'])}, which has no transactions and no row locks`
      const advice = `\`ALTER TABLE ${String(row['table_name'])} ENGINE=InnoDB\`.`
      return finding('danger', 'engine', found, advice)
    })
}

/** Every name has a slot, whose row must be there. */
async function checkSlots(runner: SqlRunner, { prefix }: Usage): Promise<Finding[]> {
  const name = withPrefix(SLOTS.name, prefix)
  const { rows } = await runner.run({ name: `${name}_count`, text: `SELECT COUNT(*) AS slots FROM ${name}` })
  const slots = Number(rows[0]?.['slots'])
  if (slots >= SLOT_COUNT) return []
  const found = `${name} has ${slots} of ${SLOT_COUNT} rows: some names cannot be locked`
  return [
    finding('danger', 'tables', found, 'Run `holdfast migrate --url …`, and find out who deleted them.'),
  ]
}
