// @ts-check
// Runs every static check, also after one has failed, and exits with 1 if any did.
import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')

/** @type {readonly (readonly [heading: string, command: string, ...args: string[]])[]} */
const steps = [
  ['format', 'npm', 'run', '--silent', 'format:check'],
  ['lint', 'npm', 'run', '--silent', 'lint'],
  ['types', 'npm', 'run', '--silent', 'types'],
  ['import direction', 'node', 'tools/check-imports.mjs'],
  ['tidiness', 'node', 'tools/check-tidy.mjs'],
  // The two checks below look at what was built, which must not be old.
  ['build of the library', 'npm', 'run', '--silent', 'build', '-w', 'holdfast'],
  ['build of the page', 'npm', 'run', '--silent', 'build', '-w', 'holdfast-dashboard'],
  ['build of the service', 'npm', 'run', '--silent', 'build', '-w', 'holdfast-service'],
  ['examples', 'npx', '--no-install', 'tsc', '-p', 'examples/tsconfig.json', '--noEmit'],
  ['package', 'node', 'tools/check-package.mjs'],
]

/** @type {string[]} */
const failed = []
for (const [heading, command, ...args] of steps) {
  console.log(`\n== ${heading}`)
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit' })
  if (error !== undefined) console.error(error.message)
  if (status !== 0) failed.push(heading)
}
console.log(failed.length === 0 ? '\nAll checks passed.' : `\nFailed: ${failed.join(', ')}.`)
process.exitCode = failed.length === 0 ? 0 : 1
