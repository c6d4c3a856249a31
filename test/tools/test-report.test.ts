import { describe, expect, it } from 'vitest'
import {
  parseServerStarts,
  problemsOf,
  type RunData,
  reportLines,
  totalsOf,
} from '../../tools/test/report.mjs'
import {
  countStates,
  describeCounts,
  describeMs,
  type FileEntry,
  skipReasonOf,
  storeOf,
  type TestEntry,
  type TestReport,
} from '../../tools/test/test-data.mjs'

function entry(title: string, state: TestEntry['state'], more: Partial<TestEntry> = {}): TestEntry {
  return { title, state, ms: 1, tags: [], skipReason: null, ...more }
}

function file(path: string, tests: readonly TestEntry[], wallMs = 1_000): FileEntry {
  const times = { wallMs, setupMs: 10, importMs: 100, testMs: wallMs - 200 }
  return { path, project: '', store: storeOf(path), ...times, counts: countStates(tests), tests }
}

function report(files: readonly FileEntry[], more: Partial<TestReport> = {}): TestReport {
  return { outcome: 'passed', files, failures: [], unhandledErrors: [], ...more }
}

const passedStep = { name: 'tests', result: 'passed', detail: null, wallMs: 61_000, cpuMs: 90_000 } as const
const failedStep = { ...passedStep, result: 'failed', detail: 'exit code 1' } as const

function run(tests: TestReport | null, more: Partial<RunData> = {}): RunData {
  const steps = [passedStep]
  return {
    plan: 'full',
    wallMs: 125_000,
    steps,
    cpu: null,
    servers: [],
    hasTests: true,
    tests,
    interruptedBy: null,
    ...more,
  }
}

const good = report([file('a.test.ts', [entry('one', 'passed')])])

describe('the outcome of a run', () => {
  it('is a pass if a test passed and nothing failed', () => {
    expect(problemsOf(run(good))).toEqual([])
    expect(totalsOf(run(good))).toEqual({ passed: 1, failed: 0, skipped: 0 })
  })

  it('counts what failed once: the failed tests explain that their step failed', () => {
    const tests = report([file('a.test.ts', [entry('one', 'failed'), entry('two', 'passed')])], {
      failures: [{ file: 'a.test.ts', title: 'one', message: 'expected 1 to be 2' }],
    })
    expect(totalsOf(run(tests, { steps: [failedStep] }))).toEqual({ passed: 1, failed: 1, skipped: 0 })
  })

  it.each<[string, RunData, string]>([
    [
      'a step failed',
      run(good, { steps: [passedStep, { ...failedStep, name: 'lab' }] }),
      'The step `lab` failed: exit code 1.',
    ],
    [
      'Vitest failed and no test did',
      run(good, { steps: [failedStep] }),
      'The step `tests` failed: exit code 1.',
    ],
    ['the tests wrote no report', run(null), 'The tests wrote no report.'],
    ['there was no test', run(report([])), 'No test was run.'],
    [
      'all tests were skipped',
      run(report([file('a.test.ts', [entry('one', 'skipped', { skipReason: 'no server' })])])),
      'No test was run.',
    ],
    [
      'a test was skipped without a reason',
      run(report([file('a.test.ts', [entry('one', 'passed'), entry('two', 'skipped')])])),
      '1 test was skipped without a reason.',
    ],
    [
      'a signal interrupted it',
      run(good, { interruptedBy: 'SIGINT', steps: [{ ...failedStep, detail: 'interrupted by SIGINT' }] }),
      'The run was interrupted by SIGINT.',
    ],
  ])('is a failure if %s', (_, data, problem) => {
    expect(problemsOf(data)).toEqual([problem])
    expect(totalsOf(data).failed).toBe(1)
  })

  it('is a failure if an error was thrown outside of every test', () => {
    const tests = report(good.files, { unhandledErrors: ['thrown late'] })
    expect(totalsOf(run(tests, { steps: [failedStep] }))).toEqual({ passed: 1, failed: 1, skipped: 0 })
  })

  it('asks for no test if the run ended before the tests', () => {
    const steps = [
      { ...failedStep, name: 'build' },
      { ...passedStep, result: 'not run' as const },
    ]
    expect(problemsOf(run(null, { steps, hasTests: false }))).toEqual([
      'The step `build` failed: exit code 1.',
    ])
  })
})

describe('the report', () => {
  const tests = report(
    [
      file(
        'packages/holdfast/test/redis/a.test.ts',
        [
          entry('one', 'failed', { tags: ['fencing'] }),
          entry('two', 'passed', { tags: ['fencing', 'exclusion'] }),
          entry('three', 'skipped', { skipReason: 'not run: no server' }),
          entry('four', 'skipped', { skipReason: 'not run: no server' }),
        ],
        200_000,
      ),
      file('b.test.ts', [entry('five', 'skipped')]),
    ],
    { failures: [{ file: 'packages/holdfast/test/redis/a.test.ts', title: 'one', message: 'no\nmore' }] },
  )
  const data = run(tests, {
    steps: [{ ...passedStep, name: 'build' }, failedStep, { ...passedStep, name: 'lab', result: 'not run' }],
    cpu: { totalMs: 200_000, kinds: [{ kind: 'vitest workers', processes: 4, ms: 150_000 }] },
    servers: [
      { name: 'redis', ms: 100 },
      { name: 'redis', ms: 200 },
      { name: 'mysql', ms: 3_000 },
    ],
  })
  const lines = reportLines(data)

  it('ends with the totals alone on a line', () => {
    expect(lines.at(-1)).toBe('1 passed, 2 failed, 3 skipped')
  })

  it.each([
    ['steps', /^ {2}tests +61\.0 s +90\.0 s {2}failed: exit code 1$/],
    ['steps that were not run', /^ {2}lab +- +- {2}not run$/],
    ['the total', /^ {2}total {2}2 min 05 s {2}3 min 20 s$/],
    ['CPU by kind', /^ {2}vitest workers +4 {2}2 min 30 s {2}75\.0 %$/],
    ['servers', /^ {2}redis +2 +150 ms$/],
    [
      'slow files',
      /^ {2}packages\/holdfast\/test\/redis\/a\.test\.ts {2}redis {2}3 min 20 s +0\.1 s {2}3 min 20 s$/,
    ],
    ['tags', /^ {2}fencing +1 +1 +0$/],
    ['tags without tests', /^ {2}secrets +0 +0 +0$/],
    ['skip reasons', /^ {6}2 {2}not run: no server$/],
    ['skips without a reason', /^ {2}b\.test\.ts: five$/],
    ['failures with file and first line', /^ {2}packages\/holdfast\/test\/redis\/a\.test\.ts: one: no$/],
    ['problems', /^ {2}1 test was skipped without a reason\.$/],
  ])('shows %s', (_, pattern) => {
    expect(lines.filter((line) => pattern.test(line))).toHaveLength(1)
  })

  it('shows 12 kinds of processes and 20 files at most', () => {
    const kinds = Array.from({ length: 15 }, (_, index) => ({
      kind: `kind-${index}`,
      processes: 2,
      ms: 1_000,
    }))
    const files = Array.from({ length: 30 }, (_, index) =>
      file(`file-${index}.test.ts`, [entry('a', 'passed')]),
    )
    const text = reportLines(run(report(files), { cpu: { totalMs: 15_000, kinds } })).join('\n')
    expect(text.match(/kind-/g)).toHaveLength(12)
    expect(text).toMatch(/all other kinds +6 +3\.0 s +20\.0 %/)
    expect(text.match(/file-/g)).toHaveLength(20)
  })
})

describe('the log of servers', () => {
  it('is read line by line, without a line that was cut off', () => {
    expect(parseServerStarts('{"name":"redis","ms":12}\n{"name":"my')).toEqual([{ name: 'redis', ms: 12 }])
    expect(parseServerStarts('')).toEqual([])
  })
})

describe('the reason of a skip', () => {
  it.each([
    ['the note', 'no server', ['a test'], 'no server'],
    ['the end of the title', undefined, ['a (b) test (not run: no go (1.2))'], 'not run: no go (1.2)'],
    ['the end of the title of a suite', undefined, ['a test', 'inner', 'x (skipped: late)'], 'skipped: late'],
    [
      'a title that says that it does not apply',
      undefined,
      ['a (does not apply to SQLite)'],
      'does not apply to SQLite',
    ],
    [
      'a title that is only the reason',
      undefined,
      ['not run, because it is late'],
      'not run, because it is late',
    ],
    ['nothing', '', ['a test (of something)', 'a suite'], null],
    ['a reason in the middle', undefined, ['a (skipped: no) test'], null],
  ])('comes from %s', (_, note, titles, reason) => {
    expect(skipReasonOf(note, titles)).toBe(reason)
  })
})

describe('names and numbers', () => {
  it.each([
    ['packages/holdfast/test/redis/failover.test.ts', 'redis'],
    ['packages/holdfast/test/conformance/postgres.test.ts', 'postgres'],
    ['test/tools/servers-browser.test.ts', 'browser'],
    ['packages/holdfast/test/http-service/hang-up.test.ts', 'http'],
    ['packages/holdfast/test/core/memory-like.test.ts', 'memory'],
    ['packages/holdfast/test/core/line.test.ts', '-'],
  ])('%s is about the store %s', (path, store) => {
    expect(storeOf(path)).toBe(store)
  })

  it('describe counts and times', () => {
    const counts = { passed: 0, failed: 0, skipped: 0, pending: 0 }
    expect(describeCounts(counts)).toBe('0 passed')
    expect(describeCounts({ ...counts, skipped: 2 })).toBe('2 skipped')
    expect(describeCounts({ passed: 1, failed: 2, skipped: 3, pending: 4 })).toBe(
      '2 failed, 1 passed, 3 skipped, 4 not finished',
    )
    expect([0, 12_340, 99_940, 99_960, 3_599_700].map(describeMs)).toEqual([
      '0.0 s',
      '12.3 s',
      '99.9 s',
      '1 min 40 s',
      '60 min 00 s',
    ])
  })
})
