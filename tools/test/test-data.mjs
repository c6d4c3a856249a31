// @ts-check
// The shape of the data that a run of the tests collects, and the rules that read a store and a skip reason from names.

/**
 * One test. `pending` means that the run ended before the test did.
 * @typedef {object} TestEntry
 * @property {string} title The full title: 'suite > test'.
 * @property {'passed' | 'failed' | 'skipped' | 'pending'} state
 * @property {number} ms
 * @property {readonly string[]} tags
 * @property {string | null} skipReason
 */

/** @typedef {{ readonly passed: number, readonly failed: number, readonly skipped: number, readonly pending: number }} Counts */

/**
 * @typedef {object} FileEntry
 * @property {string} path Relative to the root.
 * @property {string} project
 * @property {string} store
 * @property {number} wallMs From the start of the file to its end.
 * @property {number} setupMs Of the environment, of the runner and of the setup files.
 * @property {number} importMs Of the file and of what it imports, with the collection of its tests.
 * @property {number} testMs Of tests and hooks.
 * @property {Counts} counts
 * @property {readonly TestEntry[]} tests
 */

/** A test, a hook or a file that failed. @typedef {{ readonly file: string, readonly title: string, readonly message: string }} Failure */

/**
 * What the reporter writes to the file that HOLDFAST_TEST_REPORT names.
 * @typedef {object} TestReport
 * @property {'passed' | 'failed' | 'interrupted'} outcome
 * @property {readonly FileEntry[]} files
 * @property {readonly Failure[]} failures
 * @property {readonly string[]} unhandledErrors Errors that were thrown outside of every test.
 */

/** The tags that tests can have, with what a failure of such a test would mean. */
export const testTags = [
  { name: 'exclusion', description: 'Two holders never hold a lock at the same time.' },
  { name: 'fencing', description: 'Fencing tokens grow, and a stale token is rejected.' },
  { name: 'effects', description: 'An effect happens once for each key.' },
  { name: 'secrets', description: 'Secrets are in no log, no error and no response.' },
  { name: 'limits', description: 'Limits of size, number and time hold.' },
]

const stores = new Set([
  'memory',
  'sqlite',
  'redis',
  'postgres',
  'mysql',
  'mariadb',
  'zookeeper',
  'etcd',
  'consul',
  'memcached',
  'http',
  'browser',
])

/**
 * The store that a test file is about: the first word of its path that is the name of a store, or `-`.
 * @param {string} path
 */
export function storeOf(path) {
  return path.split(/[/\\._-]/).find((word) => stores.has(word)) ?? '-'
}

const reasonAtEnd = /\(((?:skipped:|not run[:,]|does not apply).*)\)\s*$/s
const reasonAlone = /^(?:skipped:|not run[:,]|does not apply)/

/**
 * Why a test was skipped: the note of `ctx.skip(note)`, or what its title or the title of an enclosing suite says.
 * @param {string | undefined} note
 * @param {readonly string[]} titles The title of the test first, then those of the suites from the inside out.
 * @returns {string | null}
 */
export function skipReasonOf(note, titles) {
  if (note !== undefined && note !== '') return note
  for (const title of titles) {
    const reason = reasonAtEnd.exec(title)?.[1]
    if (reason !== undefined) return reason
    if (reasonAlone.test(title)) return title
  }
  return null
}

/**
 * @param {Iterable<Pick<TestEntry, 'state'>>} tests
 * @returns {Counts}
 */
export function countStates(tests) {
  const counts = { passed: 0, failed: 0, skipped: 0, pending: 0 }
  for (const { state } of tests) counts[state] += 1
  return counts
}

/**
 * '17 passed, 2 skipped': only what there is. A file without tests has '0 passed'.
 * @param {Counts} counts
 */
export function describeCounts({ passed, failed, skipped, pending }) {
  const parts = [
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(passed > 0 || failed + skipped + pending === 0 ? [`${passed} passed`] : []),
    ...(skipped > 0 ? [`${skipped} skipped`] : []),
    ...(pending > 0 ? [`${pending} not finished`] : []),
  ]
  return parts.join(', ')
}

/** @param {number} ms */
export function describeMs(ms) {
  if (ms < 99_950) return `${(ms / 1_000).toFixed(1)} s`
  const seconds = Math.round(ms / 1_000)
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`
}
