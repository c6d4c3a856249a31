/** `dedupe` in the caller's transaction, with calls in parallel, and `dedupeInTransaction`. */

import { type Finding, freshName, type Subject } from '../subject.js'
import { messageOf } from '../waiting.js'
import type { SqlConnection, SqlPlace } from './sql.js'
import { describeSteps, randomSteps, type Step, sqlOf, TransactionModel } from './statement-model.js'

const SCOPE = { tenant: 'surroundings', operation: 'dedupe' }
const CALLS_MAX = 4

export async function dedupeStatements(subject: Subject, place: SqlPlace): Promise<readonly Finding[]> {
  const { library, sizes } = subject
  await library.dedupe.migrateDedupe(place.pool)
  const findings: Finding[] = []
  for (let round = 0; round < sizes.sequences; round += 1) {
    findings.push(...(await parallelCalls(subject, place)))
    findings.push(...(await ownTransaction(subject, place)))
  }
  return findings
}

type Behaviour = 'done' | 'fails' | 'nested' | 'commits' | 'rolls back'

interface Call {
  readonly behaviour: Behaviour
  readonly key: string
  readonly status: 'fulfilled' | 'rejected'
}

/** Several calls on one connection, started together. One of them may end the transaction. */
async function parallelCalls(
  { library: { dedupe }, random }: Subject,
  place: SqlPlace,
): Promise<readonly Finding[]> {
  const tx = await place.connection()
  const kinds: readonly Behaviour[] =
    random.next() < 0.7 ? ['done', 'fails', 'nested'] : ['done', 'fails', 'nested', 'commits', 'rolls back']
  const behaviours = Array.from({ length: 2 + random.int(CALLS_MAX - 1) }, () => random.pick(kinds))
  const isEnded = behaviours.some((each) => each === 'commits' || each === 'rolls back')
  try {
    await tx.run(place.dialect === 'sqlite' ? 'BEGIN IMMEDIATE' : 'BEGIN')
    const keys = behaviours.map(() => freshName('key'))
    const settled = await Promise.allSettled(
      behaviours.map((behaviour, index) =>
        dedupe.dedupe(tx.client, { scope: SCOPE, key: keys[index] ?? '' }, () =>
          workOf(behaviour, tx, place, keys[index] ?? '', dedupe),
        ),
      ),
    )
    // Where a call ended the transaction, this fails in some databases, and in others it ends nothing.
    await tx.run('COMMIT').catch(() => {})
    const calls = behaviours.map(
      (behaviour, index): Call => ({
        behaviour,
        key: keys[index] ?? '',
        status: settled[index]?.status ?? 'rejected',
      }),
    )
    return await judgeCalls(calls, isEnded, place)
  } finally {
    await tx.close()
  }
}

async function workOf(
  behaviour: Behaviour,
  tx: SqlConnection,
  place: SqlPlace,
  key: string,
  dedupe: Subject['library']['dedupe'],
): Promise<string> {
  const write = (value: string): Promise<void> => tx.run(`INSERT INTO ledger VALUES ('${value}')`)
  await write(key)
  // Others would come in between here, if calls were not made in turn.
  for (let count = 0; count < 6; count += 1) {
    await new Promise((resolve) => setImmediate(resolve))
    await tx.run('SELECT 1')
  }
  switch (behaviour) {
    case 'done':
      return 'done'
    case 'fails':
      throw new Error('the work fails')
    case 'nested': {
      const inner = { scope: SCOPE, key: `${key}-inner` }
      await dedupe.dedupe(tx.client, inner, () => write(`${key}-inner`))
      return 'done'
    }
    case 'commits':
      await tx.run('COMMIT')
      return 'done'
    case 'rolls back':
      await tx.run('ROLLBACK')
      return 'done'
  }
}

async function judgeCalls(
  calls: readonly Call[],
  isEnded: boolean,
  place: SqlPlace,
): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  const what = `parallel dedupe: ${calls.map(({ behaviour }) => behaviour).join(', ')}`
  for (const { behaviour, key, status } of calls) {
    const mayEnd = behaviour === 'commits' || behaviour === 'rolls back'
    if (status === 'fulfilled' && (mayEnd || behaviour === 'fails')) {
      findings.push({ what, message: `a call whose work ${behaviour} reported success` })
    }
    if (isEnded) continue
    const rows = await place.value(`SELECT count(*) FROM ledger WHERE value = '${key}'`)
    const expected = status === 'fulfilled' ? 1 : 0
    if (status === 'rejected' && behaviour !== 'fails') {
      findings.push({ what, message: `a call whose work is ${behaviour} was rejected` })
    }
    if (rows !== expected) {
      findings.push({ what, message: `a call that was ${status} has ${rows} rows, and not ${expected}` })
    }
  }
  return findings
}

/** `dedupeInTransaction` with random statements of the caller in it. */
async function ownTransaction(
  { library: { dedupe }, random }: Subject,
  place: SqlPlace,
): Promise<readonly Finding[]> {
  const steps: readonly Step[] = randomSteps(random, place.dialect)
  const key = freshName('own')
  let model = new TransactionModel(place.dialect)
  const work = async (tx: unknown): Promise<string> => {
    model = new TransactionModel(place.dialect)
    for (const step of steps) {
      model.apply(step)
      await place.runOn(tx, sqlOf(step, place.dialect, key)).catch(() => {})
    }
    return 'done'
  }
  const what = `dedupeInTransaction: ${describeSteps(steps)}`
  let error: unknown = null
  try {
    await dedupe.dedupeInTransaction(place.pool, { scope: SCOPE, key }, work as never)
  } catch (caught) {
    error = caught
  }
  if (model.isEnded || model.isAborted) {
    return error === null ? [{ what, message: 'the caller ended the transaction, and it resolved' }] : []
  }
  if (error !== null)
    return [{ what, message: `the transaction was intact, and it rejected with ${messageOf(error)}` }]
  const rows = await place.value(`SELECT count(*) FROM ledger WHERE value = '${key}'`)
  return rows === model.writes
    ? []
    : [{ what, message: `${model.writes} writes were to be committed, and ${rows} were` }]
}
