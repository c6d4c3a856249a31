// @ts-check
// Renders what failed in several runs of the same steps. Everything here is a pure function.
import { firstLine, tableLines } from './report.mjs'
import { countStates } from './test-data.mjs'

/**
 * @typedef {object} StressRun
 * @property {readonly ({ readonly name: string } & import('./step.mjs').StepOutcome)[]} steps
 * @property {import('./test-data.mjs').TestReport | null} tests
 */

/** What failed at least once. @typedef {{ readonly file: string, readonly title: string, readonly message: string, count: number }} Unstable */

/**
 * What failed in a run, once each: tests, errors outside of tests, and steps whose failure no test explains.
 * @param {StressRun} run
 * @returns {Map<string, Unstable>}
 */
function failuresOf({ steps, tests }) {
  /** @type {Map<string, Unstable>} */
  const found = new Map()
  /** @type {(file: string, title: string, message: string) => void} */
  const add = (file, title, message) => {
    const key = JSON.stringify([file, title])
    if (!found.has(key)) found.set(key, { file, title, message: firstLine(message), count: 1 })
  }
  for (const { file, title, message } of tests?.failures ?? []) add(file, title, message)
  for (const message of tests?.unhandledErrors ?? []) {
    add('-', `an error outside of every test: ${firstLine(message)}`, message)
  }
  const isExplained = found.size > 0
  for (const { name, passed, detail } of steps) {
    if (name === 'tests' ? passed || isExplained : passed) continue
    add('-', `the step \`${name}\``, detail ?? '')
  }
  const isTested = steps.some(({ name }) => name === 'tests')
  if (isTested && executedIn(tests) === 0) add('-', 'the step `tests`', 'No test was run.')
  return found
}

/** @param {StressRun['tests']} tests */
function executedIn(tests) {
  const { passed, failed } = countStates(tests?.files.flatMap((file) => file.tests) ?? [])
  return passed + failed
}

/**
 * @param {readonly StressRun[]} runs
 * @returns {{ lines: string[], hasFailed: boolean }}
 */
export function stressLines(runs) {
  /** @type {Map<string, Unstable>} */
  const all = new Map()
  for (const run of runs) {
    for (const [key, failure] of failuresOf(run)) {
      const known = all.get(key)
      if (known === undefined) all.set(key, failure)
      else known.count += 1
    }
  }
  const testCount = Math.max(0, ...runs.map(({ tests }) => executedIn(tests)))
  const failures = [...all.values()].toSorted((a, b) => b.count - a.count)
  const rows = failures.map(({ count, title, file, message }) => [
    `${count} of ${runs.length}`,
    title,
    file,
    message,
  ])
  const table =
    rows.length === 0 ? [] : tableLines([['failed', 'test', 'file', 'first message'], ...rows], '>')
  const failedTests = failures.filter(({ file }) => file !== '-').length
  const others = failures.length - failedTests
  return {
    lines: [
      '',
      ...table,
      ...(table.length === 0 ? [] : ['']),
      `${failedTests} of ${testCount.toLocaleString('en-US')} tests failed in any of ${runs.length} runs` +
        `${others === 0 ? '' : `, and ${others} other ${others === 1 ? 'failure' : 'failures'}`}`,
    ],
    hasFailed: failures.length > 0,
  }
}
