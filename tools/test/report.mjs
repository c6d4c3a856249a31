// @ts-check
// Renders the report at the end of a run. Everything here is a pure function of the data that the run collected.
import { countStates, describeMs, testTags } from './test-data.mjs'

/** @typedef {import('./test-data.mjs').TestReport} TestReport */
/** @typedef {import('./test-data.mjs').FileEntry} FileEntry */
/** @typedef {import('./cpu.mjs').CpuReport} CpuReport */
/** @typedef {{ readonly name: string, readonly ms: number }} ServerStart */

/**
 * @typedef {object} StepResult
 * @property {string} name
 * @property {'passed' | 'failed' | 'not run'} result
 * @property {string | null} detail
 * @property {number} wallMs
 * @property {number | null} cpuMs
 */

/**
 * Everything that a run collected. `--json` writes it to a file.
 * @typedef {object} RunData
 * @property {string} plan
 * @property {number} wallMs
 * @property {readonly StepResult[]} steps
 * @property {CpuReport | null} cpu
 * @property {readonly ServerStart[]} servers
 * @property {boolean} hasTests Whether the plan has a step that runs tests, and it was started.
 * @property {TestReport | null} tests
 * @property {NodeJS.Signals | null} interruptedBy
 */

/** @typedef {{ readonly passed: number, readonly failed: number, readonly skipped: number }} Totals */
/** @typedef {{ readonly file: string, readonly title: string }} TestName */

const kindsMax = 12
const filesMax = 20

/**
 * The reasons, besides failed tests, for which a run fails. Each counts as one failure.
 * @param {RunData} data
 * @returns {string[]}
 */
export function problemsOf({ steps, tests, hasTests, interruptedBy }) {
  const problems = []
  if (interruptedBy !== null) problems.push(`The run was interrupted by ${interruptedBy}.`)
  for (const { name, result, detail } of steps) {
    if (result !== 'failed' || interruptedBy !== null) continue
    const isExplained =
      name === 'tests' && tests !== null && tests.failures.length + tests.unhandledErrors.length > 0
    if (!isExplained) problems.push(`The step \`${name}\` failed${detail === null ? '' : `: ${detail}`}.`)
  }
  if (interruptedBy !== null || !hasTests) return problems
  if (tests === null) problems.push('The tests wrote no report.')
  else if (!tests.files.some(({ counts }) => counts.passed + counts.failed > 0)) {
    problems.push('No test was run.')
  }
  const { length: unexplained } = tests === null ? [] : skippedWithoutReason(tests)
  if (unexplained > 0) {
    problems.push(`${unexplained} ${unexplained === 1 ? 'test was' : 'tests were'} skipped without a reason.`)
  }
  return problems
}

/**
 * The numbers of the last line. A run has passed only if `failed` is 0.
 * @param {RunData} data
 * @returns {Totals}
 */
export function totalsOf(data) {
  const { passed, skipped } = countStates(data.tests?.files.flatMap(({ tests }) => tests) ?? [])
  const { failures = [], unhandledErrors = [] } = data.tests ?? {}
  return { passed, failed: failures.length + unhandledErrors.length + problemsOf(data).length, skipped }
}

/**
 * The lines of the report. The last line is read by other programs.
 * @param {RunData} data
 * @returns {string[]}
 */
export function reportLines(data) {
  const { tests } = data
  const { passed, failed, skipped } = totalsOf(data)
  return [
    '',
    `== report of \`${data.plan}\``,
    ...stepLines(data),
    ...cpuLines(data.cpu),
    ...serverLines(data.servers),
    ...(tests === null ? [] : [...slowLines(tests), ...tagLines(tests), ...skipLines(tests)]),
    ...failureLines(data),
    '',
    `${passed} passed, ${failed} failed, ${skipped} skipped`,
  ]
}

/** @param {RunData} data */
function stepLines({ steps, wallMs, cpu }) {
  const rows = steps.map(({ name, wallMs: ms, cpuMs, result, detail }) => [
    name,
    result === 'not run' ? '-' : describeMs(ms),
    cpuMs === null || result === 'not run' ? '-' : describeMs(cpuMs),
    detail === null ? result : `${result}: ${detail}`,
  ])
  const total = ['total', describeMs(wallMs), cpu === null ? '-' : describeMs(cpu.totalMs), '']
  return section('Steps', [['step', 'wall', 'CPU', 'result'], ...rows, total], ' >> ')
}

/** @param {CpuReport | null} cpu */
function cpuLines(cpu) {
  if (cpu === null || cpu.totalMs === 0) return []
  const shown = cpu.kinds.slice(0, kindsMax)
  const rest = cpu.kinds.slice(kindsMax)
  const restMs = rest.reduce((sum, { ms }) => sum + ms, 0)
  const restProcesses = rest.reduce((sum, { processes }) => sum + processes, 0)
  if (restMs > 0) shown.push({ kind: 'all other kinds', processes: restProcesses, ms: restMs })
  const rows = shown.map(({ kind, processes, ms }) => [
    kind,
    processes === 0 ? '-' : String(processes),
    describeMs(ms),
    `${((ms / cpu.totalMs) * 100).toFixed(1)} %`,
  ])
  return section('CPU time by kind of process', [['kind', 'processes', 'CPU', 'share'], ...rows], ' >>>')
}

/** @param {readonly ServerStart[]} servers */
function serverLines(servers) {
  if (servers.length === 0) return []
  const rows = [...grouped(servers, ({ name }) => name)]
    .toSorted(([, a], [, b]) => b.length - a.length)
    .map(([name, starts]) => {
      const meanMs = starts.reduce((sum, { ms }) => sum + ms, 0) / starts.length
      return [name, String(starts.length), `${Math.round(meanMs)} ms`]
    })
  return section('Servers started', [['server', 'number', 'mean start'], ...rows], ' >>')
}

/** @param {TestReport} tests */
function slowLines({ files }) {
  if (files.length === 0) return []
  const rows = files
    .toSorted((a, b) => b.wallMs - a.wallMs)
    .slice(0, filesMax)
    .map(({ path, store, wallMs, setupMs, importMs, testMs }) => [
      path,
      store,
      ...[wallMs, setupMs + importMs, testMs].map(describeMs),
    ])
  const head = ['file', 'store', 'wall', 'setup, import', 'tests']
  return section(`The ${rows.length} slowest test files`, [head, ...rows], '  >>>')
}

/** @param {TestReport} tests */
function tagLines({ files }) {
  const all = files.flatMap(({ tests }) => tests)
  const declared = testTags.map(({ name }) => name)
  const names = new Set([...declared, ...all.flatMap(({ tags }) => tags)])
  const rows = [...names].map((name) => {
    const { passed, failed, skipped, pending } = countStates(all.filter(({ tags }) => tags.includes(name)))
    return [name, ...[passed, failed + pending, skipped].map(String)]
  })
  return section('Tests by tag', [['tag', 'passed', 'failed', 'skipped'], ...rows], ' >>>')
}

/** @param {TestReport} tests */
function skipLines(tests) {
  const skipped = tests.files.flatMap((file) => file.tests).filter(({ state }) => state === 'skipped')
  if (skipped.length === 0) return []
  const rows = [...grouped(skipped, ({ skipReason }) => skipReason ?? 'NO REASON')]
    .toSorted(([, a], [, b]) => b.length - a.length)
    .map(([reason, entries]) => [String(entries.length), reason])
  const unexplained = skippedWithoutReason(tests)
  const hint = [
    '',
    'Skipped without a reason. Call `ctx.skip(reason)`, or end the title with `(skipped: reason)`,',
    '`(not run: reason)` or `(does not apply ...)`:',
    ...unexplained.map(({ file, title }) => `  ${file}: ${title}`),
  ]
  return [
    ...section('Skipped tests by reason', [['tests', 'reason'], ...rows], '> '),
    ...(unexplained.length === 0 ? [] : hint),
  ]
}

/** @param {RunData} data */
function failureLines(data) {
  const { failures = [], unhandledErrors = [] } = data.tests ?? {}
  const problems = problemsOf(data)
  if (failures.length + unhandledErrors.length + problems.length === 0) return []
  return [
    '',
    'Failed:',
    ...failures.map(({ file, title, message }) => `  ${file}: ${title}: ${firstLine(message)}`),
    ...unhandledErrors.map((message) => `  an error outside of every test: ${firstLine(message)}`),
    ...problems.map((problem) => `  ${problem}`),
  ]
}

/**
 * @param {TestReport} tests
 * @returns {TestName[]}
 */
export function skippedWithoutReason({ files }) {
  return files.flatMap(({ path, tests }) =>
    tests
      .filter(({ state, skipReason }) => state === 'skipped' && skipReason === null)
      .map(({ title }) => ({ file: path, title })),
  )
}

/**
 * Reads the log of started servers: one object for each line. A line that a killed process has not finished is left out.
 * @param {string} text
 * @returns {ServerStart[]}
 */
export function parseServerStarts(text) {
  return text.split('\n').flatMap((line) => {
    const match = /^\{.*\}$/.exec(line)
    return match === null ? [] : [JSON.parse(line)]
  })
}

/**
 * @param {string} title
 * @param {readonly (readonly string[])[]} rows The first one is the head.
 * @param {string} alignment One character for each column: `>` puts its cells to the right.
 */
function section(title, rows, alignment) {
  return ['', title, ...tableLines(rows, alignment).map((line) => `  ${line}`)]
}

/**
 * @param {readonly (readonly string[])[]} rows
 * @param {string} alignment
 * @returns {string[]}
 */
export function tableLines(rows, alignment) {
  const columns = Math.max(0, ...rows.map((row) => row.length))
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  )
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0
        return alignment[column] === '>' ? cell.padStart(width) : cell.padEnd(width)
      })
      .join('  ')
      .trimEnd(),
  )
}

/** @param {string} text */
export function firstLine(text) {
  return text.split('\n', 1)[0] ?? ''
}

/**
 * @template Item
 * @param {readonly Item[]} items
 * @param {(item: Item) => string} keyOf
 * @returns {Map<string, Item[]>}
 */
function grouped(items, keyOf) {
  /** @type {Map<string, Item[]>} */
  const groups = new Map()
  for (const item of items) {
    const group = groups.get(keyOf(item))
    if (group === undefined) groups.set(keyOf(item), [item])
    else group.push(item)
  }
  return groups
}
