// @ts-check
// Prints one line for each test file that has finished, and writes the results as JSON for the report of the run.
import { writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import { inspect, styleText } from 'node:util'
import { DefaultReporter } from 'vitest/node'
import { countStates, describeCounts, describeMs, skipReasonOf, storeOf } from './test-data.mjs'

/** @typedef {import('vitest/node').TestCase} TestCase */
/** @typedef {import('vitest/node').TestModule} TestModule */
/** @typedef {import('vitest/node').TestSuite} TestSuite */
/** @typedef {import('./test-data.mjs').Failure} Failure */
/** @typedef {import('./test-data.mjs').FileEntry} FileEntry */
/** @typedef {import('./test-data.mjs').TestEntry} TestEntry */
/** @typedef {import('./test-data.mjs').TestReport} TestReport */
/** @typedef {Parameters<DefaultReporter['onUserConsoleLog']>[0]} ConsoleLog */
/** @typedef {import('vitest/node').ReportedHookContext} Hook */

/**
 * A file that has started and not ended. `at` holds the tests and hooks that run, by id.
 * @typedef {{ readonly startedAt: number, readonly timer: NodeJS.Timeout, readonly at: Map<string, string> }} RunningFile
 */

const reportVariable = 'HOLDFAST_TEST_REPORT'
const failedHook = 'a hook of an enclosing suite failed'

/** The printing of failures with diff and source position is the one of Vitest. */
export class ProgressReporter extends DefaultReporter {
  #stillRunningMs
  /** @type {string | undefined} */
  #reportFile
  /** The files that this run has to run, by project and path. @type {Map<string, string>} */
  #planned = new Map()
  #finishedCount = 0
  /** @type {Map<string, RunningFile>} */
  #running = new Map()
  /** How long each file took, by id. @type {Map<string, number>} */
  #wallMs = new Map()
  /** What tests print, by id of the file; under '' what belongs to no known test. @type {Map<string, ConsoleLog[]>} */
  #logs = new Map()
  #ended = false

  /** @param {{ stillRunningMs?: number }} [options] After how long a file counts as slow, and is named again each time. */
  constructor({ stillRunningMs = 60_000 } = {}) {
    super({ summary: false })
    this.#stillRunningMs = stillRunningMs
  }

  /**
   * @override
   * @param {import('vitest/node').Vitest} vitest
   */
  onInit(vitest) {
    super.onInit(vitest)
    this.#reportFile = process.env[reportVariable]
    // A test that runs Vitest itself must not write over this report.
    delete process.env[reportVariable]
    // Vitest ends the process by itself when it is interrupted. What has finished until then is still reported.
    process.once('exit', () => {
      if (this.#ended) return
      this.#write(vitest.state.getTestModules(), vitest.state.getUnhandledErrors(), 'interrupted')
    })
  }

  /**
   * @override
   * @param {ReadonlyArray<import('vitest/node').TestSpecification>} specifications
   */
  onTestRunStart(specifications) {
    super.onTestRunStart(specifications)
    this.#ended = false
    this.#planned = new Map(
      specifications.map(({ project, moduleId }) => [plannedKey(project.name, moduleId), moduleId]),
    )
    this.#finishedCount = 0
    this.#logs.clear()
  }

  /**
   * @override
   * @param {TestModule} module
   */
  onTestModuleQueued(module) {
    const startedAt = performance.now()
    const timer = setInterval(() => this.#printStillRunning(module), this.#stillRunningMs)
    timer.unref()
    this.#running.set(module.id, { startedAt, timer, at: new Map() })
  }

  /**
   * @override
   * @param {TestCase} test
   */
  onTestCaseReady(test) {
    this.#running.get(test.module.id)?.at.set(test.id, test.fullName)
  }

  /**
   * @override
   * @param {TestCase} test
   */
  onTestCaseResult(test) {
    this.#running.get(test.module.id)?.at.delete(test.id)
  }

  /**
   * @override
   * @param {Hook} hook
   */
  onHookStart({ name, entity }) {
    const module = entity.type === 'module' ? entity : entity.module
    const title = entity.type === 'module' ? 'the file' : entity.fullName
    this.#running.get(module.id)?.at.set(`${entity.id} ${name}`, `${name} of ${title}`)
  }

  /**
   * @override
   * @param {Hook} hook
   */
  onHookEnd({ name, entity }) {
    const module = entity.type === 'module' ? entity : entity.module
    this.#running.get(module.id)?.at.delete(`${entity.id} ${name}`)
  }

  /**
   * @override
   * @param {TestModule} module
   */
  onTestModuleEnd(module) {
    const running = this.#running.get(module.id)
    clearInterval(running?.timer)
    this.#running.delete(module.id)
    this.#wallMs.set(module.id, running === undefined ? 0 : performance.now() - running.startedAt)
    this.#finishedCount += 1
    this.#printFinished(module)
    if (module.state() === 'failed') this.#printLogs(module.id)
    this.#logs.delete(module.id)
  }

  /**
   * @override
   * @param {ConsoleLog} log
   */
  onUserConsoleLog(log) {
    const id = this.ctx.state.idMap.get(log.taskId ?? '')?.file.id ?? ''
    const logs = this.#logs.get(id)
    if (logs === undefined) this.#logs.set(id, [log])
    else logs.push(log)
  }

  /**
   * @override
   * @param {Parameters<DefaultReporter['onTestRunEnd']>} args
   */
  onTestRunEnd(...args) {
    const [modules, unhandledErrors, outcome] = args
    if (outcome !== 'passed') this.#printLogs('')
    super.onTestRunEnd(...args)
    this.#write(modules, unhandledErrors, outcome)
    this.#ended = true
  }

  /** @param {TestModule} module */
  #printFinished(module) {
    const width = String(this.#planned.size).length
    const { path, store, wallMs, counts } = this.#fileEntryOf(module)
    const hasFailed = module.state() === 'failed'
    const place = `[${String(this.#finishedCount).padStart(width)}/${this.#planned.size}]`
    const parts = [
      `${place} ${store.padEnd(10)} ${path}`,
      ...(hasFailed ? ['FAILED'] : []),
      describeCounts(counts),
      describeMs(wallMs),
    ]
    const line = parts.join('  ')
    this.log(hasFailed ? this.#red(line) : line)
    for (const { title, message } of hasFailed ? failuresOf(module, path) : []) {
      this.log(this.#red(`${' '.repeat(place.length + 1)}FAILED: ${title}: ${message.split('\n', 1)[0]}`))
    }
  }

  /** @param {TestModule} module */
  #printStillRunning(module) {
    const running = this.#running.get(module.id)
    if (running === undefined) return
    const at = [...running.at.values()].at(-1)
    const path = this.relative(module.moduleId)
    const place = ' '.repeat(String(this.#planned.size).length * 2 + 3)
    this.log(
      `${place} ${storeOf(path).padEnd(10)} ${path}  still running after ` +
        `${describeMs(performance.now() - running.startedAt)}, ${at === undefined ? 'between tests' : `at: ${at}`}`,
    )
  }

  /** @param {string} id */
  #printLogs(id) {
    for (const log of this.#logs.get(id) ?? []) super.onUserConsoleLog(log)
    this.#logs.delete(id)
  }

  /** @param {string} text */
  #red(text) {
    return this.isTTY ? styleText('red', text) : text
  }

  /**
   * @param {TestModule} module
   * @returns {FileEntry}
   */
  #fileEntryOf(module) {
    const path = relative(this.ctx.config.root, module.moduleId)
    const tests = [...module.children.allTests()].map(testEntryOf)
    const { environmentSetupDuration, prepareDuration, setupDuration, collectDuration, duration } =
      module.diagnostic()
    return {
      path,
      project: module.project.name,
      store: storeOf(path),
      wallMs: Math.round(this.#wallMs.get(module.id) ?? 0),
      setupMs: Math.round(environmentSetupDuration + prepareDuration + setupDuration),
      importMs: Math.round(collectDuration),
      testMs: Math.round(duration),
      counts: countStates(tests),
      tests,
    }
  }

  /**
   * The files that were never started. A worker that crashes loses the files that it still had to run.
   * @param {readonly TestModule[]} modules
   * @returns {Failure[]}
   */
  #notRun(modules) {
    const missing = new Map(this.#planned)
    for (const { project, moduleId } of modules) missing.delete(plannedKey(project.name, moduleId))
    return [...missing.values()].map((path) => ({
      file: this.relative(path),
      title: '(the file)',
      message: 'The file was not run.',
    }))
  }

  /**
   * @param {readonly TestModule[]} modules
   * @param {readonly unknown[]} errors
   * @param {TestReport['outcome']} outcome
   */
  #write(modules, errors, outcome) {
    if (this.#reportFile === undefined || this.#reportFile === '') return
    const files = modules.map((module) => this.#fileEntryOf(module))
    const failures = modules.flatMap((module, index) => failuresOf(module, files[index]?.path ?? ''))
    if (outcome !== 'interrupted') {
      failures.push(...files.flatMap(unfinishedOf), ...this.#notRun(modules))
    }
    /** @type {TestReport} */
    const report = { outcome, files, failures, unhandledErrors: errors.map(messageOf) }
    writeFileSync(this.#reportFile, `${JSON.stringify(report)}\n`)
  }
}

/**
 * @param {string} project
 * @param {string} path
 */
function plannedKey(project, path) {
  return JSON.stringify([project, path])
}

/**
 * @param {TestCase} test
 * @returns {TestEntry}
 */
function testEntryOf(test) {
  const result = test.result()
  return {
    title: test.fullName,
    state: result.state,
    ms: Math.round(test.diagnostic()?.duration ?? 0),
    tags: test.tags,
    skipReason: result.state === 'skipped' ? reasonOf(test, result.note) : null,
  }
}

/**
 * @param {TestCase} test
 * @param {string | undefined} note
 */
function reasonOf(test, note) {
  const titles = [test.name]
  let hookHasFailed = false
  /** @type {TestSuite | TestModule} */
  let parent = test.parent
  for (; parent.type === 'suite'; parent = parent.parent) {
    titles.push(parent.name)
    hookHasFailed ||= parent.errors().length > 0
  }
  hookHasFailed ||= parent.errors().length > 0
  // Vitest skips the tests of a suite whose `beforeAll` fails. The failure of the hook is reported by itself.
  return skipReasonOf(note, titles) ?? (hookHasFailed ? failedHook : null)
}

/**
 * @param {TestModule} module
 * @param {string} file
 * @returns {Failure[]}
 */
function failuresOf(module, file) {
  /** @type {Failure[]} */
  const failures = []
  /** @type {(title: string, errors: readonly unknown[]) => void} */
  const add = (title, errors) => {
    failures.push({ file, title, message: errors.map(messageOf).join('\n') })
  }
  if (module.errors().length > 0) add('(the file)', module.errors())
  for (const suite of module.children.allSuites()) {
    if (suite.errors().length > 0) add(`${suite.fullName} (the suite)`, suite.errors())
  }
  for (const test of module.children.allTests('failed')) add(test.fullName, test.result().errors ?? [])
  return failures
}

/**
 * @param {FileEntry} entry
 * @returns {Failure[]}
 */
function unfinishedOf({ path, tests }) {
  return tests
    .filter(({ state }) => state === 'pending')
    .map(({ title }) => ({ file: path, title, message: 'The test did not finish.' }))
}

/** @param {unknown} error */
function messageOf(error) {
  const isError = typeof error === 'object' && error !== null && 'message' in error
  return isError ? String(error.message) : inspect(error, { depth: 0 })
}
