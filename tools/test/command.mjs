// @ts-check
// What the commands of this folder share: wrong usage as an exit code, and temporary files.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testsStep } from './plans.mjs'

const usageCode = 2

/** The arguments of a command are wrong. */
export class UsageError extends Error {}

/**
 * Sets the exit code of the process to the result of the command.
 * @param {() => Promise<number> | number} main
 */
export async function runCommand(main) {
  try {
    process.exitCode = await main()
  } catch (error) {
    if (!isUsageError(error)) throw error
    console.error(`${error.message}\n\`--help\` shows the usage.`)
    process.exitCode = usageCode
  }
}

/**
 * @param {unknown} error
 * @returns {error is Error}
 */
function isUsageError(error) {
  if (error instanceof UsageError) return true
  return error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS_')
}

/** The files through which the steps of a run report to the runner. */
export class ReportFiles {
  #folder = mkdtempSync(join(tmpdir(), 'holdfast-test-run-'))
  #tests = join(this.#folder, 'tests.json')
  #servers = join(this.#folder, 'servers.jsonl')

  /** What every step gets. */
  get env() {
    return { HOLDFAST_SERVERS_LOG: this.#servers }
  }

  /** What the step that runs the tests gets besides. */
  get testsEnv() {
    return { HOLDFAST_TEST_REPORT: this.#tests }
  }

  /**
   * What the tests reported, or null. The next run of the tests starts without it.
   * @returns {import('./test-data.mjs').TestReport | null}
   */
  takeTests() {
    const text = textOf(this.#tests)
    rmSync(this.#tests, { force: true })
    return text === '' ? null : JSON.parse(text)
  }

  /** The servers that were started, one line of JSON for each. */
  serversText() {
    return textOf(this.#servers)
  }

  remove() {
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/**
 * What a step gets in its environment besides that of the run. `install` and `build` use the temporary folder of the system,
 * which they share with other runs.
 * @param {import('./plans.mjs').Step} step
 * @param {ReportFiles} files
 * @param {Readonly<Record<string, string>>} temporary Where temporary files go.
 * @returns {Readonly<Record<string, string>>}
 */
export function envOf({ name, required = false }, files, temporary) {
  return { ...(required ? {} : temporary), ...(name === testsStep ? files.testsEnv : {}) }
}

/** @param {string} path */
function textOf(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // The step that writes the file did not run, or ended before it wrote the file.
    return ''
  }
}
