// @ts-check
// Runs the tests several times while other processes keep the cores busy, and lists the tests that failed in any run.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { envOf, ReportFiles, runCommand, UsageError } from './command.mjs'
import { isPlanName, stepsOf } from './plans.mjs'
import { StepRunner } from './step.mjs'
import { stressLines } from './stress-report.mjs'
import { TemporaryFolder } from './temporary-folder.mjs'

/** @typedef {import('./plans.mjs').Step} Step */
/** @typedef {import('./stress-report.mjs').StressRun} StressRun */

const repository = resolve(import.meta.dirname, '../..')

const help = `usage: npm run test:stress -- [--busy N] [--runs N] [--plan full|quick] [--root FOLDER] [FILE ...]

Runs the steps of a plan several times, also after failures, while other processes keep the cores busy. \`install\` and
\`build\` run once, before the other processes start.

  --busy N       how many processes keep a core busy (default 4)
  --runs N       how many times the steps run (default 3)
  --plan NAME    full or quick (default full)
  --root FOLDER  runs in this folder; the repository unless given
  FILE ...       runs only the tests of these files

Exit code 0: nothing failed in any run. 1: something failed. 2: wrong usage. 130, 143: interrupted.`

/** Processes that each keep one core busy. */
class BusyProcesses {
  /** @type {import('node:child_process').ChildProcess[]} */
  #children = []
  #onExit = () => this.#kill()

  /** @param {number} count */
  start(count) {
    process.on('exit', this.#onExit)
    const script = join(import.meta.dirname, 'busy.mjs')
    for (let index = 0; index < count; index += 1) {
      this.#children.push(spawn(process.execPath, [script, String(process.pid)], { stdio: 'ignore' }))
    }
    console.log(`Busy processes: ${this.#children.map(({ pid }) => pid).join(', ') || 'none'}`)
  }

  /** Ends the processes and waits until they have ended. */
  async stop() {
    process.off('exit', this.#onExit)
    const running = this.#children.filter(
      ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
    )
    const ends = running.map((child) => once(child, 'exit'))
    this.#kill()
    await Promise.all(ends)
  }

  #kill() {
    for (const child of this.#children) child.kill('SIGKILL')
  }
}

/**
 * Runs the steps that a later step needs.
 * @param {readonly Step[]} steps
 * @param {StepRunner} runner
 * @returns {Promise<string | null>} why it failed
 */
async function prepare(steps, runner) {
  for (const step of steps) {
    console.log(`\n== ${step.name}`)
    const { passed, detail } = await runner.run(step)
    if (!passed) return `The step \`${step.name}\` failed: ${detail}.`
  }
  return null
}

/**
 * @param {readonly Step[]} steps
 * @param {StepRunner} runner
 * @param {ReportFiles} files
 * @param {TemporaryFolder} temporary
 * @param {string} heading
 * @returns {Promise<StressRun>}
 */
async function runOnce(steps, runner, files, temporary, heading) {
  /** @type {StressRun['steps'][number][]} */
  const outcomes = []
  for (const [index, step] of steps.entries()) {
    if (runner.interruptedBy !== null) break
    console.log(`\n== ${heading}, [${index + 1}/${steps.length}] ${step.name}`)
    const outcome = await runner.run(step, envOf(step, files, temporary.env))
    outcomes.push({ name: step.name, ...outcome })
  }
  return { steps: outcomes, tests: files.takeTests() }
}

/**
 * @param {string} name
 * @param {string | undefined} text
 * @param {number} fallback
 * @param {number} min
 */
function wholeNumber(name, text, fallback, min) {
  if (text === undefined) return fallback
  if (/^\d{1,4}$/.test(text) && Number(text) >= min) return Number(text)
  throw new UsageError(`--${name} must be a whole number from ${min}, not ${JSON.stringify(text)}.`)
}

/** @returns {Promise<number>} the exit code */
async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      help: { type: 'boolean', short: 'h' },
      busy: { type: 'string' },
      runs: { type: 'string' },
      plan: { type: 'string' },
      root: { type: 'string' },
    },
  })
  if (values.help === true) {
    console.log(help)
    return 0
  }
  const busyCount = wholeNumber('busy', values.busy, 4, 0)
  const runCount = wholeNumber('runs', values.runs, 3, 1)
  const { plan = 'full' } = values
  if (!isPlanName(plan) || plan === 'deep') throw new UsageError('--plan must be full or quick.')
  const steps = stepsOf(plan, positionals)
  const files = new ReportFiles()
  const temporary = new TemporaryFolder(process.env)
  const runner = new StepRunner(resolve(values.root ?? repository), { ...process.env, ...files.env })
  const busy = new BusyProcesses()
  /** @type {StressRun[]} */
  const runs = []
  try {
    const required = steps.filter((step) => step.required === true)
    const failure = await prepare(required, runner)
    if (failure !== null) {
      console.log(`\n${failure}`)
      return runner.interruptedCode ?? 1
    }
    busy.start(busyCount)
    const repeated = steps.filter((step) => step.required !== true)
    while (runs.length < runCount && runner.interruptedBy === null) {
      runs.push(await runOnce(repeated, runner, files, temporary, `run ${runs.length + 1} of ${runCount}`))
    }
  } finally {
    await busy.stop()
    runner.close()
    files.remove()
    temporary.remove()
  }
  const { lines, hasFailed } = stressLines(runs)
  console.log(lines.join('\n'))
  return runner.interruptedCode ?? (hasFailed ? 1 : 0)
}

await runCommand(main)
