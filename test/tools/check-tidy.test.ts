import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { checkTidy } from '../../tools/check-tidy.mjs'
import { withRepository } from './planted-repository.js'

const src = 'packages/holdfast/src'

function faultsOf(path: string, text: string): string[] {
  return withRepository({ [path]: text }, checkTidy).map(
    (fault) => `${fault.file}:${fault.line}: ${fault.text}`,
  )
}

/** A function of the given number of lines, its first and last included. */
function functionOf(lines: number): string {
  return `export function long(): void {\n${'  void 0\n'.repeat(lines - 2)}}\n`
}

describe('check-tidy catches', () => {
  const marker = ['TO', 'DO'].join('')
  it.each([
    ['a long file', `${src}/core/a.ts`, 'export const a = 1\n'.repeat(351)],
    ['a long function', `${src}/core/a.ts`, functionOf(81)],
    ['a vague name', `${src}/core/utils.ts`, ''],
    ['a leftover marker', 'packages/cli/src/main.ts', `// ${marker}: later\n`],
    ['a default export', 'packages/cli/src/main.ts', 'export default 1\n'],
    ['a default function', 'packages/cli/src/main.ts', 'export default function a(): void {}\n'],
    ['a renamed default', 'packages/cli/src/main.ts', 'const a = 1\nexport { a as default }\n'],
    ['Date.now', `${src}/core/a.ts`, 'export const a = Date.now()\n'],
    ['Date.now as a value', `${src}/core/a.ts`, 'export const a = Date.now\n'],
    ['new Date()', `${src}/core/a.ts`, 'export const a = new Date()\n'],
    ['performance.now', `${src}/client/a.ts`, 'export const a = performance.now()\n'],
    ['process.hrtime', `${src}/client/a.ts`, 'export const a = process.hrtime.bigint()\n'],
    ['setTimeout', `${src}/client/a.ts`, 'setTimeout(() => undefined, 1)\n'],
    ['globalThis.setTimeout', `${src}/client/a.ts`, 'globalThis.setTimeout(() => undefined, 1)\n'],
    ['setInterval as a value', `${src}/client/a.ts`, 'export const a = { start: setInterval }\n'],
    ['setImmediate', `${src}/backends/sqlite/backend.ts`, 'setImmediate(() => undefined)\n'],
    ['Math.random', `${src}/core/a.ts`, 'export const a = Math.random()\n'],
    ['Math["random"]', `${src}/core/a.ts`, "export const a = Math['random']()\n"],
    ['crypto.randomUUID', `${src}/core/a.ts`, 'export const a = crypto.randomUUID()\n'],
    ['an import of randomBytes', `${src}/client/a.ts`, "import { randomBytes } from 'node:crypto'\n"],
    ['a hook of a shared module', 'test/support/a.ts', 'afterEach(() => undefined)\n'],
    ['a retry', 'packages/cli/test/a.test.ts', `it('a', { ${'retry'}: 2 }, () => undefined)\n`],
    ['an import of timers', `${src}/client/a.ts`, "import * as timers from 'node:timers/promises'\n"],
  ])('%s', (_title, path, text) => {
    const faults = faultsOf(path, text)
    expect(faults).toHaveLength(1)
    expect(faults[0]).toContain(`${path}:`)
  })

  it('a path of one machine, in any file that git would track', () => {
    const path = ['', 'root', 'secret'].join('/')
    const files = {
      'docs/a.md': `Fine: ./root/x\nBad: ${path}\n`,
      'ignored/b.md': path,
      '.gitignore': 'ignored/\n',
    }
    const faults = withRepository(files, (root) => {
      execFileSync('git', ['init', '--quiet'], { cwd: root })
      return checkTidy(root)
    })
    expect(faults).toEqual([{ file: 'docs/a.md', line: 2, text: `path of one machine: Bad: ${path}` }])
  })
})

describe('check-tidy lets pass', () => {
  it.each([
    ['a file of 350 lines', `${src}/core/a.ts`, 'export const a = 1\n'.repeat(350)],
    ['a function of 80 lines', `${src}/core/a.ts`, functionOf(80)],
    ['the injected system', `${src}/core/a.ts`, 'export const a = (s: S) => s.setTimeout(s.now(), 1)\n'],
    [
      'a member with such a name',
      `${src}/core/a.ts`,
      'export interface S { setTimeout(ms: number): void }\n',
    ],
    ['a comment', `${src}/core/a.ts`, '// Date.now and setTimeout are not used here.\n'],
    ['a date from a number', `${src}/core/a.ts`, 'export const a = (ms: number) => new Date(ms)\n'],
    ['the system of the client', `${src}/client/system.ts`, 'export const a = () => performance.now()\n'],
    [
      'the clock of a backend',
      `${src}/backends/sqlite/clock.ts`,
      'export const a = () => process.hrtime()\n',
    ],
    ['testing', `${src}/testing/suite/a.ts`, 'setTimeout(() => undefined, 1)\n'],
    ['other packages', 'packages/cli/src/main.ts', 'export const a = Date.now()\n'],
  ])('%s', (_title, path, text) => {
    expect(faultsOf(path, text)).toEqual([])
  })
})
