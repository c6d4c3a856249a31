// @ts-check
// Runs the tests. What failed while other files ran beside it, and is not about safety, is run again alone, and must then
// pass each time; it is named at the end. docs/decisions/0020 says why.
import { relative, resolve } from 'node:path'
import { inspect, parseArgs } from 'node:util'
import { startVitest } from 'vitest/node'
import { judge } from './lib/second-look.mjs'

/** @typedef {import('./lib/second-look.mjs').Run} Run */

/** How often a file must pass alone. */
const looks = 2

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { root: { type: 'string' }, help: { type: 'boolean', short: 'h' } },
})
if (values.help) {
  console.log(
    'usage: node tools/test.mjs [--root FOLDER] [FILE ...]\n\nRuns all tests, or those of the files.',
  )
  process.exit(0)
}
const root = resolve(values.root ?? resolve(import.meta.dirname, '..'))

/**
 * @param {readonly string[]} files all of them if there are none
 * @returns {Promise<Run>}
 */
async function run(files) {
  process.exitCode = 0
  const vitest = await startVitest('test', [...files], { root, watch: false })
  try {
    const modules = vitest.state.getTestModules()
    const stray = vitest.state.getUnhandledErrors().map((error) => inspect(error, { depth: 0 }))
    if (modules.length === 0) stray.push('no test was found')
    const failures = modules.flatMap(failuresOf)
    // Whatever else it failed for, such as an interruption, is no pass only because no test can be named.
    if (process.exitCode !== 0 && failures.length + stray.length === 0)
      stray.push('vitest says that it failed')
    return { failures, stray }
  } finally {
    await vitest.close()
  }
}

/**
 * @param {import('vitest/node').TestModule} module
 * @returns {import('./lib/second-look.mjs').Failure[]}
 */
function failuresOf(module) {
  const file = module.moduleId
  /** @type {{ title: string, errors: readonly { message: string }[] }[]} */
  const parts = [{ title: relative(root, file), errors: module.errors() }]
  for (const suite of module.children.allSuites())
    parts.push({ title: suite.fullName, errors: suite.errors() })
  for (const test of module.children.allTests('failed')) {
    parts.push({ title: test.fullName, errors: test.result().errors ?? [] })
  }
  return parts
    .filter(({ errors }) => errors.length > 0)
    .map(({ title, errors }) => ({ file, title, message: errors.map(({ message }) => message).join('\n') }))
}

/**
 * @param {Run} run
 * @param {string} heading
 */
function tell({ failures, stray }, heading) {
  console.log(`\n${heading}`)
  for (const { file, title, message } of failures) {
    console.log(`  ${relative(root, file)}: ${title}\n    ${message.split('\n', 1)[0]}`)
  }
  for (const text of stray) console.log(`  ${text}`)
}

/** @returns {Promise<boolean>} whether all is well */
async function main() {
  const first = await run(positionals)
  const judgement = judge(first)
  if (judgement.kind === 'passed') return true
  if (judgement.kind === 'failed') {
    tell(first, `The tests have failed; ${judgement.why}:`)
    return false
  }
  tell(first, `Failed, and run again alone, ${looks} times:`)
  for (const file of judgement.files) {
    for (let look = 1; look <= looks; look += 1) {
      const again = await run([file])
      if (judge(again).kind === 'passed') continue
      tell(again, `Failed alone as well, run ${look} of ${looks}:`)
      return false
    }
  }
  tell(first, `UNSTABLE: all tests have passed, but these only alone, ${looks} of ${looks} times:`)
  return true
}

// Vitest ends the process by itself when it is interrupted, and calls that a success.
let isJudged = false
process.on('exit', () => {
  if (!isJudged) process.exitCode = 130
})
const isWell = await main()
isJudged = true
process.exitCode = isWell ? 0 : 1
