/** docs/guarantees.md, written from what the suite found. */

import type { Guarantees } from 'holdfast'
import { STORE_TYPES } from '../sim/stores/store.js'
import { FAULTS, type FaultName } from '../stage/stage.js'
import type { ReportedRecipe } from '../surroundings/report.js'
import { CHECKS } from '../surroundings/subject.js'
import type { TortureOutcome } from '../torture/outcome.js'
import { checksOf, PROMISES, type PromiseName, SIMULATED, SURROUNDED, TORTURED } from './coverage.js'
import type { SuiteResult } from './runs.js'

/** When and with what the results were made, in words. */
export interface PageFacts {
  readonly version: string
  readonly results: readonly SuiteResult[]
  /** What the checks of the surroundings found for each recipe. */
  readonly surroundings: readonly ReportedRecipe[]
}

const HEAD = `# What holds, under which fault

This page is generated from the checks and from their results by
\`node packages/torture/dist/suite/write-page.js TORTURE.json SURROUNDINGS.json\`, except for the last section, which lists what
the checks do not cover. [torture.md](torture.md) describes the runs, [checking.md](checking.md) the checkers,
[simulation.md](simulation.md) the simulator and [surroundings.md](surroundings.md) the checks of what surrounds a lock.

A run that finds nothing proves nothing about what it did not meet. The same checkers find every broken recipe of the
[lab](lab.md) and every planted fault. What a store does not promise is in its declared guarantees, and on its page under
"What breaks it".
`

const DECLARED_HEAD = `## What is declared

- **safety**: \`consensus\` (a majority of servers decides), \`single-node\` (one server, or one file, decides), \`best-effort\`.
- **fencing**: \`strict\` (whatever happens, a later hold has a higher number), \`best-effort\`, \`none\`.
- **kept by**: what ends a hold whose process is gone: its lease, its session, its connection.
- **clock**: which clock judges leases. \`server-wall\` can be set by people and by NTP, and then leases end early or late.
- **fair**: whether callers are served in order of arrival, and how many of the positions that the store confirmed could be
  judged. A position cannot be judged if a fault reached its caller.
`

const FAULTS_HEAD = `## Faults

How often each fault was done to each recipe in these runs. Everything that was found stands below the table; a recipe
that is not named there lost no exclusion, no order of fences, no update and no waiter, told every holder in time, and left
nothing behind, under any of its faults. Empty: the fault does not apply, or cannot be done here (see below).
`

const NOT_DONE = `## What is not covered

- \`server-swap\` promotes a standby that lacks nothing. A standby that lacks the last writes is \`failover\`, on Redis only.
- \`duplicate\` sends what a client sent once more over a connection of its own. On ZooKeeper, etcd and Consul that would make
  claims that belong to a living session, which nothing in a real network does.
- \`clock\` sets the wall clock of Redis, PostgreSQL, MySQL, MariaDB, and of the processes that use an SQLite file. ZooKeeper, etcd,
  Consul and memcached judge by monotonic clocks, which nobody sets.
- \`partition\` is done to etcd and ZooKeeper; for Consul the leader is killed instead.
- Failover of a database to its replica is not staged. [postgres.md](backends/postgres.md#what-breaks-it) and
  [mysql.md](backends/mysql.md#what-breaks-it) say when two processes can hold a lock after one.
- The callers never end the transaction that holds their lock (\`mysqlTransactions\`, \`postgresTransactions\`). Tests cover that.
- A run has 16 callers, so the queue of a name stays short. Long queues in Redis, which are sorted sets, are compared with the rule
  by the differential test.
- A process that is stopped inside a transaction of SQLite keeps the write lock of the file, and blocks every name until it continues or
  ends. \`pause\` seldom hits that moment; [sqlite.md](backends/sqlite.md#what-breaks-it) describes the effect on other processes.
- The order of waiters is judged where a store confirms a position in its queue and no fault reaches the waiter. During most
  faults it is not; the simulator judges it there.
`

export function guaranteesPage({ version, results, surroundings }: PageFacts): string {
  const ran = results.flatMap((result) => (result.kind === 'ran' ? [result.outcome] : []))
  const used = FAULTS.filter((fault) => ran.some((outcome) => countOf(outcome, fault) > 0))
  return [
    HEAD,
    '## What is checked\n',
    `The simulator has these types of store: ${STORE_TYPES.map((type) => `\`${type}\``).join(', ')}. Each cell names the violations ` +
      'or checks that are about the promise.\n',
    coverageTable(),
    `These results are of version ${version}; ${ran.length} recipes, ${sum(ran, acquiredIn)} acquisitions, ` +
      `${sum(ran, lostIn)} losses that holders were told of, ${sum(ran, faultsIn)} faults.\n`,
    DECLARED_HEAD,
    table(
      ['store', 'recipe', 'safety', 'fencing', 'kept by', 'clock', 'fair'],
      ran.map((outcome) => [outcome.store, outcome.recipe, ...declared(outcome)]),
    ),
    FAULTS_HEAD,
    table(
      ['store', 'recipe', ...used],
      ran.map((outcome) => [outcome.store, outcome.recipe, ...used.map((fault) => cell(outcome, fault))]),
    ),
    '## What did not hold\n',
    ...brokenPromises(ran),
    '## What surrounds a lock\n',
    table(
      ['store', 'recipe', ...CHECKS],
      surroundings.map(({ store, recipe, checks }) => [
        store,
        recipe,
        ...CHECKS.map((check) => SURROUNDED_CELLS[checks[check] ?? 'does not apply']),
      ]),
    ),
    '## The runs\n',
    table(
      ['store', 'recipe', 'acquired', 'lost', 'writes refused by the fence', 'command'],
      ran.map((outcome) => [
        outcome.store,
        outcome.recipe,
        String(acquiredIn(outcome)),
        String(lostIn(outcome)),
        outcome.guarantees.fencing === 'none' ? 'no fences' : String(outcome.register.refused),
        `\`${outcome.repeat}\``,
      ]),
    ),
    NOT_DONE.trimEnd(),
    '',
  ].join('\n')
}

const SURROUNDED_CELLS = { passed: 'passed', found: '**failed**', 'does not apply': '' } as const

function coverageTable(): string {
  const cell = (checks: Readonly<Record<string, PromiseName>>, promise: PromiseName): string =>
    checksOf(checks, promise)
      .map((name) => `\`${name}\``)
      .join(', ')
  const names = Object.keys(PROMISES) as PromiseName[]
  return table(
    ['promise', 'simulator', 'torture', 'surroundings'],
    names.map((name) => [
      PROMISES[name],
      cell(SIMULATED, name),
      cell(TORTURED, name),
      cell(SURROUNDED, name),
    ]),
  )
}

function declared({ guarantees, queue }: TortureOutcome): string[] {
  const { safety, fencing, keptBy, clock, fair }: Guarantees = guarantees
  return [safety, fencing, keptBy, clock, fair ? `yes, ${queue.judged} of ${queue.confirmed} judged` : 'no']
}

/** The recipes with violations, each with its kinds, how many, and why the guarantees admit them. */
function brokenPromises(ran: readonly TortureOutcome[]): string[] {
  const lines = ran.flatMap((outcome) => {
    const groups = new Map<string, number>()
    for (const { kind, admitted } of outcome.verdict.violations) {
      const key = JSON.stringify([kind, admitted ?? null])
      groups.set(key, (groups.get(key) ?? 0) + 1)
    }
    return [...groups].map(([key, count]) => {
      const [kind, why] = JSON.parse(key) as [string, string | null]
      const reason = why ?? '**Not admitted by what is declared.**'
      return `- **${outcome.store}, ${outcome.recipe}**: \`${kind}\`, ${count === 1 ? 'once' : `${count} times`}. ${reason}`
    })
  })
  return lines.length === 0 ? ['Nothing, in these runs.\n'] : [...lines, '']
}

function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(headings), line(headings.map(() => '---')), ...rows.map(line), ''].join('\n')
}

function cell(outcome: TortureOutcome, fault: FaultName): string {
  const count = countOf(outcome, fault)
  return count === 0 ? '' : String(count)
}

function countOf({ faults }: TortureOutcome, fault: FaultName): number {
  return faults.find(({ name }) => name === fault)?.count ?? 0
}

function sum(ran: readonly TortureOutcome[], of: (outcome: TortureOutcome) => number): number {
  return ran.reduce((total, outcome) => total + of(outcome), 0)
}

function acquiredIn({ names }: TortureOutcome): number {
  return names.reduce((total, { acquired }) => total + acquired, 0)
}

function lostIn({ names }: TortureOutcome): number {
  return names.reduce((total, { lost }) => total + lost, 0)
}

function faultsIn({ faults }: TortureOutcome): number {
  return faults.reduce((total, { count }) => total + count, 0)
}
