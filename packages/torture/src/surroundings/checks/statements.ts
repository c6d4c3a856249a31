/**
 * The caller's own statements inside a transaction lock and inside `dedupe`: if the caller ended the transaction, the
 * library reports it and never claims success; otherwise the work is committed as it is.
 */

import type { Transactions } from 'holdfast/postgres'
import { type Check, type Finding, freshName, type Subject } from '../subject.js'
import { codeOf, messageOf } from '../waiting.js'
import { type SqlPlace, sqlPlaceOf } from './sql.js'
import { describeSteps, randomSteps, type Step, sqlOf, TransactionModel } from './statement-model.js'
import { dedupeStatements } from './statements-dedupe.js'

const WAIT_MS = 60_000
const IN_FAILED_TRANSACTION = '25P02'

export const statements: Check = async (subject) => {
  const isTransactions = ['for-update', 'advisory-xact'].includes(subject.recipe)
  if (!isTransactions && !['rows', 'line'].includes(subject.recipe)) return null
  const place = await sqlPlaceOf(subject)
  if (place === null) return null
  try {
    await place.runOn(place.pool, 'CREATE TABLE IF NOT EXISTS ledger (value VARCHAR(200) NOT NULL)')
    return isTransactions ? await transactionLocks(subject, place) : await dedupeStatements(subject, place)
  } finally {
    await place.close()
  }
}

/** What became of one transaction. */
interface Outcome {
  readonly value: string
  readonly steps: readonly Step[]
  readonly model: TransactionModel
  readonly error: unknown
  readonly isResolved: boolean
  /** When the work was inside, by a counter of the process. */
  readonly entered: number
  readonly left: number
}

async function transactionLocks(subject: Subject, place: SqlPlace): Promise<readonly Finding[]> {
  const locks = await openTransactions(subject, place)
  const findings: Finding[] = []
  let clock = 0
  const now = (): number => ++clock
  try {
    await locks.migrate()
    for (let round = 0; round < subject.sizes.sequences; round += 1) {
      const name = freshName('transaction')
      const pair = await Promise.all([
        one(subject, place, locks, name, now),
        one(subject, place, locks, name, now),
      ])
      for (const outcome of pair) findings.push(...(await judge(outcome, place)))
      findings.push(...bothSucceeded(pair))
      // The connections are back in the pool, and a caller that does nothing wrong can use them.
      const last = await one(subject, place, locks, name, now, [{ kind: 'write' }])
      findings.push(...(await judge(last, place)))
    }
  } finally {
    await locks.close()
  }
  return findings
}

function openTransactions(
  { library, recipe }: Subject,
  { dialect, pool }: SqlPlace,
): Promise<Transactions<never>> {
  if (dialect === 'mysql')
    return library.mysql.mysqlTransactions({ pool }) as unknown as Promise<Transactions<never>>
  const own = recipe === 'advisory-xact' ? 'advisory-xact' : 'for-update'
  return library.postgres.postgresTransactions({ pool, recipe: own }) as unknown as Promise<
    Transactions<never>
  >
}

async function one(
  { random }: Subject,
  place: SqlPlace,
  locks: Transactions<never>,
  name: string,
  now: () => number,
  steps: readonly Step[] = randomSteps(random, place.dialect),
): Promise<Outcome> {
  const value = freshName('value')
  let model = new TransactionModel(place.dialect)
  let [entered, left] = [0, 0]
  const work = async (client: unknown): Promise<void> => {
    // It may be run again after a deadlock.
    model = new TransactionModel(place.dialect)
    entered = now()
    for (const step of steps) {
      model.apply(step)
      // A caller that does not look at errors is the hardest one.
      await place.runOn(client, sqlOf(step, place.dialect, value)).catch(() => {})
    }
    left = now()
  }
  let error: unknown = null
  let isResolved = false
  try {
    await locks.transaction(name, work, { waitMs: WAIT_MS })
    isResolved = true
  } catch (caught) {
    error = caught
  }
  return { value, steps, model, error, isResolved, entered, left }
}

async function judge(outcome: Outcome, place: SqlPlace): Promise<readonly Finding[]> {
  const { steps, model, error, isResolved, value } = outcome
  const what = describeSteps(steps)
  if (model.isEnded) {
    if (isResolved) return [{ what, message: 'the caller ended the transaction, and transaction() resolved' }]
    const reason: unknown = Reflect.get(Object(error), 'reason')
    // A transaction that the caller began instead may itself be aborted, and then PostgreSQL answers nothing else.
    if (codeOf(error) === IN_FAILED_TRANSACTION) return []
    if (codeOf(error) === 'LOCK_LOST' && reason === 'transaction-ended') return []
    return [{ what, message: `rejected with ${messageOf(error)}, not with the reason transaction-ended` }]
  }
  if (model.isAborted) {
    return isResolved
      ? [{ what, message: 'nothing can have been committed, and transaction() resolved' }]
      : []
  }
  if (!isResolved)
    return [{ what, message: `the transaction was intact, and it rejected with ${messageOf(error)}` }]
  const written = await place.value(`SELECT count(*) FROM ledger WHERE value = '${value}'`)
  return written === model.writes
    ? []
    : [{ what, message: `${model.writes} writes were to be committed, and ${written} were` }]
}

function bothSucceeded([first, second]: readonly Outcome[]): readonly Finding[] {
  if (first === undefined || second === undefined) return []
  const areApart = first.left < second.entered || second.left < first.entered
  if (areApart || !first.isResolved || !second.isResolved) return []
  const what = `${describeSteps(first.steps)} beside ${describeSteps(second.steps)}`
  return [{ what, message: 'two callers were inside at the same time, and both succeeded' }]
}
