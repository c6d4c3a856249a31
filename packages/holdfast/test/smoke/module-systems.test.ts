// @module-tag exclusion
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'

const run = promisify(execFile)
const program = join(import.meta.dirname, 'module-systems.mjs')

beforeAll(() => {
  const built = join(import.meta.dirname, '..', '..', 'dist', 'index.cjs')
  if (!existsSync(built)) throw new Error('The library is not built. Run `npm run build` first.')
})

test('import and require load the same objects from every entry, without a warning', async () => {
  const { stdout, stderr } = await run(process.execPath, [program])
  expect(stderr).toBe('')
  expect(stdout).toContain('import and require give the same objects')
})

// AWS Lambda, Jest and Node.js 22 before 22.12 cannot require ES modules.
test('require loads the library where ES modules cannot be required', async () => {
  const script = `const library = require('holdfast')
    import('holdfast').then(({ connect }) => console.log(connect === library.connect))`
  const options = ['--no-experimental-require-module', '--input-type=commonjs', '--eval', script]
  const { stdout } = await run(process.execPath, options, { cwd: import.meta.dirname })
  expect(stdout).toBe('true\n')
})
