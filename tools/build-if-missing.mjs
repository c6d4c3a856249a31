// @ts-check
// Builds the workspace if one of the given files is missing, and does nothing otherwise.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')
const missing = process.argv.slice(2).filter((file) => !existsSync(join(root, file)))
if (missing.length > 0) {
  console.log(`Building, because ${missing.join(', ')} is missing.`)
  const { status } = spawnSync('npm', ['run', 'build', '--silent'], { cwd: root, stdio: 'inherit' })
  process.exitCode = status ?? 1
}
