// @ts-check
// Compares the test titles of two runs, and fails if a title was removed without a reason.
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { runCommand, UsageError } from './command.mjs'

/** @typedef {{ readonly file: string, readonly title: string }} TestName */
/** Why titles were removed; `match` is tested against 'file: title'. @typedef {{ readonly match: string, readonly reason: string }} Reason */

/**
 * @typedef {object} Comparison
 * @property {number} keptCount
 * @property {number} movedCount Titles that are in another file now.
 * @property {readonly TestName[]} removed
 * @property {readonly TestName[]} added
 */

const help = `usage: node tools/test/compare-titles.mjs BEFORE.json AFTER.json [--reasons FILE]

Compares the titles of the tests in two reports: files that run.mjs writes with --json, files that the variable
HOLDFAST_TEST_REPORT names, or files of the json reporter of Vitest. A title that is in another file now counts as moved.

  --reasons FILE  a JSON list of { "match": "regular expression against 'file: title'", "reason": "..." }

Exit code 0: every removed title has a reason. 1: one has none, or a reason matches no removed title. 2: wrong usage.`

/**
 * Replaces what differs from run to run: random tags, ports, seeds and absolute paths.
 * @param {string} title
 */
export function normalizeTitle(title) {
  return title
    .replaceAll(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi, 'UUID')
    .replaceAll(/(?<![\w.:/])(?:\/(?:tmp|var|home|root|work|Users|private)(?:\/[^\s'"`,;:)]+)+)/g, 'PATH')
    .replaceAll(/\b(holdfast-[a-z-]*-)[A-Za-z0-9]{6}\b/g, '$1RANDOM')
    .replaceAll(/\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,}\b/g, 'HEX')
    .replaceAll(/(\d{1,3}(?:\.\d{1,3}){3}|localhost|\[::1\]):\d{2,5}\b/g, '$1:PORT')
    .replaceAll(/\bport \d{2,5}\b/g, 'port PORT')
    .replaceAll(/(?<![a-z])(seed[= ])\d+/gi, '$1SEED')
}

/**
 * The path within the repository, so that reports from different folders can be compared.
 * @param {string} path
 */
export function normalizeFile(path) {
  const slashed = path.replaceAll('\\', '/')
  return /(?:^|\/)(packages\/.*)$/.exec(slashed)?.[1] ?? /(?:^|\/)(test\/.*)$/.exec(slashed)?.[1] ?? slashed
}

/**
 * Reads the tests of a report of any of the three formats.
 * @param {unknown} report
 * @returns {TestName[]}
 */
export function testNamesOf(report) {
  if (!isObject(report)) throw new UsageError('A report must be a JSON object.')
  if (isObject(report.tests)) return testNamesOf(report.tests)
  if (Array.isArray(report.files)) {
    return report.files.flatMap(({ path, tests }) =>
      tests.map((/** @type {{ title: string }} */ { title }) => nameOf(path, title)),
    )
  }
  if (Array.isArray(report.testResults)) {
    return report.testResults.flatMap(({ name, assertionResults }) =>
      assertionResults.map(
        (/** @type {{ ancestorTitles?: string[], title: string }} */ { ancestorTitles = [], title }) =>
          nameOf(name, [...ancestorTitles, title].join(' > ')),
      ),
    )
  }
  throw new UsageError('A report must have `files` or `testResults`.')
}

/**
 * @param {string} file
 * @param {string} title
 * @returns {TestName}
 */
function nameOf(file, title) {
  return { file: normalizeFile(file), title }
}

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Several tests can have the same name; each counts.
 * @param {readonly TestName[]} before
 * @param {readonly TestName[]} after
 * @returns {Comparison}
 */
export function compareTitles(before, after) {
  // Equal titles are matched first, because normal forms of different titles can be equal.
  const equal = matchUp(before, after, ({ file, title }) => JSON.stringify([file, title]))
  const similar = matchUp(equal.onlyFirst, equal.onlySecond, ({ file, title }) =>
    JSON.stringify([file, normalizeTitle(title)]),
  )
  const moved = matchUp(similar.onlyFirst, similar.onlySecond, ({ title }) => normalizeTitle(title))
  return {
    keptCount: before.length - similar.onlyFirst.length,
    movedCount: similar.onlyFirst.length - moved.onlyFirst.length,
    removed: moved.onlyFirst,
    added: moved.onlySecond,
  }
}

/**
 * Takes pairs of equal items out of two lists, and returns what is left of each.
 * @param {readonly TestName[]} first
 * @param {readonly TestName[]} second
 * @param {(name: TestName) => string} keyOf
 */
function matchUp(first, second, keyOf) {
  /** @type {Map<string, TestName[]>} */
  const rest = new Map()
  for (const name of second) {
    const same = rest.get(keyOf(name))
    if (same === undefined) rest.set(keyOf(name), [name])
    else same.push(name)
  }
  const onlyFirst = first.filter((name) => rest.get(keyOf(name))?.pop() === undefined)
  return { onlyFirst, onlySecond: [...rest.values()].flat() }
}

/**
 * @param {Comparison} comparison
 * @param {readonly Reason[]} reasons
 * @returns {{ lines: string[], hasFailed: boolean }}
 */
export function judgeTitles({ keptCount, movedCount, removed, added }, reasons) {
  const rules = reasons.map(({ match, reason }) => ({ pattern: new RegExp(match), match, reason, count: 0 }))
  const used = new Set()
  /** @type {string[]} */
  const unexplained = []
  for (const { file, title } of removed) {
    const name = `${file}: ${title}`
    const matching = rules.filter(({ pattern }) => pattern.test(name))
    for (const rule of matching) used.add(rule)
    const [first] = matching
    if (first === undefined) unexplained.push(name)
    else first.count += 1
  }
  const unused = rules.filter((rule) => !used.has(rule))
  const lines = [
    `kept ${keptCount}, moved ${movedCount}, added ${added.length}, removed ${removed.length}`,
    ...rules.map(({ reason, count }) => `  removed ${count}: ${reason}`),
    ...(unexplained.length === 0 ? [] : [`Removed without a reason: ${unexplained.length}`]),
    ...unexplained.map((name) => `  ${name}`),
    ...unused.map(({ match, reason }) => `The reason matches no removed title: ${match} (${reason})`),
  ]
  return { lines, hasFailed: unexplained.length + unused.length > 0 }
}

/** @param {string} path */
function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** @returns {number} the exit code */
function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { help: { type: 'boolean', short: 'h' }, reasons: { type: 'string' } },
  })
  if (values.help === true) {
    console.log(help)
    return 0
  }
  const [before, after, ...rest] = positionals
  if (before === undefined || after === undefined || rest.length > 0) {
    throw new UsageError('Expected two reports.')
  }
  const reasons = values.reasons === undefined ? [] : readJson(values.reasons)
  const comparison = compareTitles(testNamesOf(readJson(before)), testNamesOf(readJson(after)))
  const { lines, hasFailed } = judgeTitles(comparison, reasons)
  console.log(lines.join('\n'))
  return hasFailed ? 1 : 0
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await runCommand(main)
