/** Faults that the checks of surroundings must find. The text of each must occur exactly once in its file. */

import type { Mutant } from '../../sim/mutants/mutant.js'
import type { CheckName } from '../subject.js'

export interface SurroundingMutant extends Mutant {
  /** Where it is looked for. */
  readonly store: string
  readonly recipe: string
  /** What must find it. */
  readonly check: CheckName
}

const SRC = 'holdfast/src'
const IN_MEMORY = { store: 'memory', recipe: 'line' } as const
const IN_SQLITE = { store: 'sqlite', recipe: 'line' } as const

export const SURROUNDING_MUTANTS: readonly SurroundingMutant[] = [
  {
    name: 'listener of a signal never removed',
    file: `${SRC}/core/abort-listeners.ts`,
    find: "    signal.removeEventListener('abort', listener)",
    replace: '',
    ...IN_MEMORY,
    check: 'memory',
  },
  {
    name: 'listener of a claim left on the session that it shared',
    file: `${SRC}/backends/sessions/connection-backend.ts`,
    find: '    entry.unlisten()\n',
    replace: '',
    store: 'postgres',
    recipe: 'advisory',
    check: 'memory',
  },
  {
    name: 'timer that keeps the process running for a waiter is unref’d',
    file: `${SRC}/core/keep-alive.ts`,
    find: '() => this.#start(), true)',
    replace: '() => this.#start(), false)',
    ...IN_MEMORY,
    check: 'lifetime',
  },
  {
    name: 'timer of a pause between two looks is unref’d',
    file: `${SRC}/core/abort-listeners.ts`,
    find: 'timers.start(ms, over, true)',
    replace: 'timers.start(ms, over, false)',
    ...IN_MEMORY,
    check: 'lifetime',
  },
  {
    name: 'abort listeners called in the context of another caller',
    file: `${SRC}/core/scoped-abort.ts`,
    find: 'this.#scope(() => this.#controller.abort(reason))',
    replace: 'this.#controller.abort(reason)',
    ...IN_MEMORY,
    check: 'context',
  },
  {
    name: 'events published in the context of no caller',
    file: `${SRC}/core/reports.ts`,
    find: 'this.#scopes.get(event.acquisition) ?? this.#contexts.outside',
    replace: 'this.#contexts.outside',
    ...IN_MEMORY,
    check: 'context',
  },
  {
    name: 'state of the transaction not checked before the commit',
    file: `${SRC}/transactions/transactions.ts`,
    find: '    await this.#checkIntact(hold)\n',
    replace: '',
    store: 'mariadb',
    recipe: 'for-update',
    check: 'statements',
  },
  {
    name: 'a rolled back transaction of PostgreSQL counts as open',
    file: `${SRC}/backends/postgres/transaction.ts`,
    find: 'return markIn((await session.run(BEGUN)).rows[0]) === mark',
    replace: 'return markIn((await session.run(BEGUN)).rows[0]) !== mark || true',
    store: 'postgres',
    recipe: 'for-update',
    check: 'statements',
  },
  {
    name: 'parallel dedupe calls on one connection do not wait for each other',
    file: `${SRC}/dedupe/turns.ts`,
    find: '  await level.enter(maxMs, stuck, time)',
    replace: '  void [maxMs, stuck]',
    ...IN_SQLITE,
    check: 'statements',
  },
  {
    name: 'expired readers stay in the key of Redis',
    file: `${SRC}/backends/redis/line.lua`,
    find: 'local TEXT_BYTES = 4096',
    replace: 'local TEXT_BYTES = 1000000000',
    store: 'redis',
    recipe: 'line',
    check: 'memory',
  },
  {
    name: 'rows of expired claims never deleted',
    file: `${SRC}/backends/sqlite/line-store.ts`,
    find: 'const CLEAR = `DELETE FROM places WHERE resource = ? AND expires_at <= ?`',
    replace: 'const CLEAR = `DELETE FROM places WHERE resource = ? AND expires_at <= ? AND 1 = 0`',
    ...IN_SQLITE,
    check: 'memory',
  },
]
