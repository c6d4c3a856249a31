import { readFileSync } from 'node:fs'
import type { Guarantees } from 'holdfast'
import { expect, test } from 'vitest'
import type { Violation } from '../../src/check/verdict.js'
import { PROMISES, SIMULATED, SURROUNDED, TORTURED } from '../../src/suite/coverage.js'
import { guaranteesPage } from '../../src/suite/page.js'
import type { SuiteResult } from '../../src/suite/runs.js'

const GUARANTEES = {
  safety: 'single-node',
  fencing: 'strict',
  keptBy: 'lease',
  clock: 'server-wall',
  fair: true,
} as Guarantees

function ran(recipe: string, violations: readonly Violation[]): SuiteResult {
  return {
    kind: 'ran',
    store: 'redis',
    recipe,
    outcome: {
      store: 'redis',
      recipe,
      guarantees: GUARANTEES,
      seed: 7,
      seconds: 20,
      workers: 4,
      ttlMs: 1_000,
      tookMs: 25_000,
      faults: [
        { name: 'kill', count: 3 },
        { name: 'clock', count: 1 },
      ],
      names: [{ name: 'mutex-1', acquired: 40, refused: 1, lost: 2, unknown: 0, waitedMs: null }],
      verdict: {
        valid: true,
        violations,
        undecided: [],
        counts: { events: 1, acquired: 40, lost: 2, unknown: 0 },
      },
      plainSet: { added: 1, unprotectedLosses: 0 },
      register: { accepted: 9, refused: 5 },
      queue: { confirmed: 5, judged: 4 },
      health: [],
      trouble: [],
      repeat: `holdfast torture --store redis --recipe ${recipe} --seed 7`,
      history: null,
      report: null,
    },
  }
}

const OVERLAP: Violation = { kind: 'overlap', resource: 'a', at: 1, message: 'x' }

test('the page says which faults were done, what did not hold, and how to see it again', () => {
  const page = guaranteesPage({
    version: '1.2.3',
    results: [
      ran('line', []),
      ran('set-nx', [
        { ...OVERLAP, admitted: 'The clock was set.' },
        { ...OVERLAP, admitted: 'The clock was set.' },
      ]),
      { kind: 'not run', store: 'etcd', recipe: 'lease', reason: 'etcd is missing', required: false },
    ],
    surroundings: [
      { store: 'redis', recipe: 'line', checks: { lifetime: 'passed', context: 'found', memory: 'passed' } },
    ],
  })
  expect(page).toContain(
    'version 1.2.3; 2 recipes, 80 acquisitions, 4 losses that holders were told of, 8 faults',
  )
  expect(page).toContain('| store | recipe | kill | clock |')
  expect(page).toContain('| redis | line | 3 | 1 |')
  expect(page).toContain('- **redis, set-nx**: `overlap`, 2 times. The clock was set.')
  expect(page).toContain('`holdfast torture --store redis --recipe line --seed 7`')
  expect(page).not.toContain('etcd | lease')
  expect(page).toContain('| redis | line | single-node | strict | lease | server-wall | yes, 4 of 5 judged |')
  expect(page).toContain('| redis | line | passed | **failed** | passed |  |')
})

test('a violation that nothing admits is not hidden', () => {
  expect(guaranteesPage({ version: '1', results: [ran('line', [OVERLAP])], surroundings: [] })).toContain(
    '- **redis, line**: `overlap`, once. **Not admitted by what is declared.**',
  )
})

test('every promise is checked somewhere, and the page on the site has the checks of the code', () => {
  const about = [SIMULATED, TORTURED, SURROUNDED].flatMap((checks) => Object.values(checks))
  expect(new Set(about)).toEqual(new Set(Object.keys(PROMISES)))
  const coverage = /## What is checked\n[\s\S]*?(?=These results)/
  const made = coverage.exec(guaranteesPage({ version: '1', results: [], surroundings: [] }))?.[0]
  const written = readFileSync(new URL('../../../../docs/guarantees.md', import.meta.url), 'utf8')
  expect(coverage.exec(written)?.[0]).toBe(made)
})
