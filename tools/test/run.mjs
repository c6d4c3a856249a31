// @ts-check
// Runs the steps of a plan one after the other, and ends with a report. `--help` lists the plans.
import { writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { envOf, ReportFiles, runCommand, UsageError } from './command.mjs'
import { CpuMeter } from './cpu.mjs'
import { isPlanName, plans, stepsOf, testsStep } from './plans.mjs'
import { parseServerStarts, reportLines, totalsOf } from './report.mjs'
import { StepRunner } from './step.mjs'
import { TemporaryFolder } from './temporary-folder.mjs'

/** @typedef {import('./plans.mjs').Step} Step */
/** @typedef {import('./report.mjs').RunData} RunData */
/** @typedef {import('./report.mjs').StepResult} StepResult */

const repository = resolve(import.meta.dirname, '../..')

function helpText() {
  const described = Object.entries(plans).flatMap(([name, { what, steps }]) => [
    '',
    `${name}: ${what}`,
    ...steps.map((step) => `  ${step.name.padEnd(11)} ${step.what}`),
  ])
  return [
    'usage: node tools/test/run.mjs quick|full|deep [--json FILE] [--root FOLDER] [FILE ...]',
    '',
    'Runs all steps of a plan, also after one has failed, and ends with a report. A failed `install` or `build`',
    'ends the run.',
    '',
    '  --json FILE    writes all that was measured to a file',
    '  --root FOLDER  runs in this folder; the repository unless given',
    '  FILE ...       runs only the tests of these files (with quick or full)',
    ...described,
    '',
    'Exit code 0: all passed. 1: something failed, or no test was run, or a test was skipped without a reason.',
    '2: wrong usage. 130, 143: interrupted by SIGINT, SIGTERM.',
  ].join('\n')
}

/**
 * @param {readonly Step[]} steps
 * @param {StepRunner} runner
 * @param {CpuMeter} meter
 * @param {ReportFiles} files
 * @param {TemporaryFolder} temporary
 * @returns {Promise<StepResult[]>}
 */
async function runSteps(steps, runner, meter, files, temporary) {
  /** @type {StepResult[]} */
  const results = []
  let hasEnded = false
  for (const [index, step] of steps.entries()) {
    if (hasEnded || runner.interruptedBy !== null) {
      results.push({ name: step.name, result: 'not run', detail: null, wallMs: 0, cpuMs: null })
      continue
    }
    console.log(`\n== [${index + 1}/${steps.length}] ${step.name}`)
    const cpuBefore = meter.totalMs()
    const outcome = await runner.run(step, envOf(step, files, temporary.env))
    const cpuAfter = meter.totalMs()
    const { passed, detail, wallMs } = outcome
    const cpuMs = cpuBefore === null || cpuAfter === null ? null : cpuAfter - cpuBefore
    results.push({ name: step.name, result: passed ? 'passed' : 'failed', detail, wallMs, cpuMs })
    hasEnded = !passed && step.required === true
  }
  return results
}

/**
 * @param {string} plan
 * @param {readonly Step[]} steps
 * @param {string} root
 * @returns {Promise<{ data: RunData, interruptedCode: number | null }>}
 */
async function runPlan(plan, steps, root) {
  const files = new ReportFiles()
  const temporary = new TemporaryFolder(process.env)
  const runner = new StepRunner(root, { ...process.env, ...files.env })
  const meter = new CpuMeter()
  const startedAt = performance.now()
  if (temporary.path !== null) console.log(`Temporary files are in memory, in ${temporary.path}.`)
  meter.start()
  try {
    const results = await runSteps(steps, runner, meter, files, temporary)
    /** @type {RunData} */
    const data = {
      plan,
      wallMs: performance.now() - startedAt,
      steps: results,
      cpu: meter.stop(),
      servers: parseServerStarts(files.serversText()),
      hasTests: results.some(({ name, result }) => name === testsStep && result !== 'not run'),
      tests: files.takeTests(),
      interruptedBy: runner.interruptedBy,
    }
    return { data, interruptedCode: runner.interruptedCode }
  } finally {
    runner.close()
    files.remove()
    temporary.remove()
  }
}

/** @returns {Promise<number>} the exit code */
async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      help: { type: 'boolean', short: 'h' },
      json: { type: 'string' },
      root: { type: 'string' },
    },
  })
  if (values.help === true) {
    console.log(helpText())
    return 0
  }
  const [plan, ...files] = positionals
  if (!isPlanName(plan)) {
    throw new UsageError(`Expected quick, full or deep, not ${JSON.stringify(plan ?? '')}.`)
  }
  if (plan === 'deep' && files.length > 0) {
    throw new UsageError('The plan deep takes no files. Use quick or full.')
  }
  const root = resolve(values.root ?? repository)
  const { data, interruptedCode } = await runPlan(plan, stepsOf(plan, files), root)
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(data)}\n`)
  console.log(reportLines(data).join('\n'))
  return interruptedCode ?? (totalsOf(data).failed === 0 ? 0 : 1)
}

await runCommand(main)
