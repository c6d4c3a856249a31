/** Which statements a caller may send inside a transaction, and a small model of what they do to it. */

import type { Seeded } from '../random.js'
import type { Dialect } from './sql.js'

export type Step =
  | { readonly kind: 'write' }
  | { readonly kind: 'savepoint' | 'rollback to' | 'release'; readonly savepoint: string }
  | {
      readonly kind:
        | 'failing statement'
        | 'ddl'
        | 'commit'
        | 'rollback'
        | 'begin'
        | 'commit and chain'
        | 'lock tables'
    }

const HARMLESS = ['write', 'write', 'savepoint', 'rollback to', 'release', 'failing statement'] as const
const ENDING = ['ddl', 'commit', 'rollback', 'begin', 'commit and chain', 'lock tables'] as const
const SAVEPOINTS = ['s1', 's2']
const STEPS_MAX = 6

/** Half of the sequences leave the transaction alone. */
export function randomSteps(random: Seeded, dialect: Dialect): readonly Step[] {
  const mayEnd = random.next() < 0.5
  const kinds = mayEnd ? [...HARMLESS, ...ENDING] : HARMLESS
  const steps = Array.from({ length: 1 + random.int(STEPS_MAX) }, (): Step => {
    const kind = random.pick<(typeof HARMLESS | typeof ENDING)[number]>(kinds)
    if (kind === 'savepoint' || kind === 'rollback to' || kind === 'release') {
      return { kind, savepoint: random.pick(SAVEPOINTS) }
    }
    return { kind }
  })
  return steps.filter(
    ({ kind }) => dialect !== 'sqlite' || (kind !== 'lock tables' && kind !== 'commit and chain'),
  )
}

export function describeSteps(steps: readonly Step[]): string {
  return steps.map((step) => ('savepoint' in step ? `${step.kind} ${step.savepoint}` : step.kind)).join(', ')
}

let tables = 0

/** `value` is what a write inserts into the table `ledger`. */
export function sqlOf(step: Step, dialect: Dialect, value: string): string {
  switch (step.kind) {
    case 'write':
      return `INSERT INTO ledger VALUES ('${value}')`
    case 'savepoint':
      return `SAVEPOINT ${step.savepoint}`
    case 'rollback to':
      return `ROLLBACK TO SAVEPOINT ${step.savepoint}`
    case 'release':
      return `RELEASE SAVEPOINT ${step.savepoint}`
    case 'failing statement':
      return 'SELECT * FROM no_such_table'
    case 'ddl':
      tables += 1
      return `CREATE TABLE made_${process.pid}_${tables} (id INTEGER)`
    case 'commit':
      return 'COMMIT'
    case 'rollback':
      return 'ROLLBACK'
    case 'begin':
      return dialect === 'mysql' ? 'START TRANSACTION' : 'BEGIN'
    case 'commit and chain':
      return 'COMMIT AND CHAIN'
    case 'lock tables':
      return dialect === 'mysql' ? 'LOCK TABLES ledger WRITE' : 'LOCK TABLE ledger IN ROW EXCLUSIVE MODE'
  }
}

/** What the model says of a transaction after some statements. */
export class TransactionModel {
  /** The caller has ended the transaction that had the lock. */
  isEnded = false
  /** PostgreSQL refuses everything after an error, until a rollback. */
  isAborted = false
  #writes = 0
  readonly #savepoints: { readonly name: string; readonly writes: number }[] = []
  readonly #dialect: Dialect

  constructor(dialect: Dialect) {
    this.#dialect = dialect
  }

  /** How many writes a commit would keep. */
  get writes(): number {
    return this.#writes
  }

  apply(step: Step): void {
    if (this.isEnded) return
    if (this.isAborted && !['rollback', 'rollback to', 'commit', 'commit and chain'].includes(step.kind))
      return
    switch (step.kind) {
      case 'write':
        this.#writes += 1
        return
      case 'savepoint':
        return this.#savepoint(step.savepoint)
      case 'rollback to':
      case 'release':
        return this.#backTo(step.savepoint, step.kind)
      case 'failing statement':
        return this.#fail()
      case 'commit':
      case 'rollback':
      case 'commit and chain':
        this.isEnded = true
        return
      case 'begin':
      case 'ddl':
      case 'lock tables':
        // MySQL commits before each of these. PostgreSQL and SQLite do not.
        if (this.#dialect === 'mysql') this.isEnded = true
    }
  }

  #savepoint(name: string): void {
    // In MySQL a savepoint takes the place of another one of the same name; elsewhere it hides it.
    const at = this.#savepoints.findIndex((each) => each.name === name)
    if (this.#dialect === 'mysql' && at >= 0) this.#savepoints.splice(at, 1)
    this.#savepoints.push({ name, writes: this.#writes })
  }

  #backTo(name: string, kind: 'rollback to' | 'release'): void {
    const at = this.#savepoints.findLastIndex((each) => each.name === name)
    const found = this.#savepoints[at]
    if (found === undefined) return this.#fail()
    if (kind === 'rollback to') {
      this.#writes = found.writes
      this.isAborted = false
      this.#savepoints.splice(at + 1)
    } else this.#savepoints.splice(at)
  }

  #fail(): void {
    if (this.#dialect === 'postgres') this.isAborted = true
  }
}
