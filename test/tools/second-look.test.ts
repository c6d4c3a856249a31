import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { judge } from '../../tools/lib/second-look.mjs'

const repository = resolve(import.meta.dirname, '../..')

function failure(title: string, file = 'a.test.ts', message = 'expected 1 to be 2') {
  return { title, file, message }
}

describe('a run of the tests', () => {
  it('has passed when nothing failed', () => {
    expect(judge({ failures: [], stray: [] })).toEqual({ kind: 'passed' })
  })

  it('is looked at again, each file one time, when little failed and none of it is grave', () => {
    const failures = [failure('one is late'), failure('another is late'), failure('a third', 'b.test.ts')]
    expect(judge({ failures, stray: [] })).toEqual({ kind: 'again', files: ['a.test.ts', 'b.test.ts'] })
    expect(judge({ failures: [failure('evict() frees it at once')], stray: [] }).kind).toBe('again')
  })

  it('has failed when something was thrown outside of every test', () => {
    expect(judge({ failures: [], stray: ['Error: nobody caught it'] }).kind).toBe('failed')
    expect(judge({ failures: [failure('one is late')], stray: ['Error'] }).kind).toBe('failed')
  })

  it('has failed when much failed', () => {
    const many = Array.from({ length: 5 }, () => failure('one is late'))
    expect(judge({ failures: many, stray: [] }).kind).toBe('failed')
    const spread = ['a', 'b', 'c', 'd'].map((file) => failure('one is late', file))
    expect(judge({ failures: spread, stray: [] }).kind).toBe('failed')
  })

  it.each([
    'redis conforms > exclusion > mutex: one at a time',
    'redis conforms > fencing > the fence rises after the holder was killed',
    'many clients with many tasks lose no update of a shared counter',
    'readers see no half-written state',
    'the sum of the permits never exceeds the limit',
    'messages that come late or twice grant nothing twice',
    'the effect happens once for each key',
    'secrets are in no log',
  ])('has failed when it is about safety: %s', (title) => {
    expect(judge({ failures: [failure(title)], stray: [] }).kind).toBe('failed')
  })

  it('has failed when the message says that it is about safety', () => {
    const failures = [failure('a crowd', 'a.test.ts', 'Two holders at the same time.')]
    expect(judge({ failures, stray: [] }).kind).toBe('failed')
  })
})

/** Runs the command on files of tests in a folder of its own. It is within the repository, so that they find `vitest`. */
function runTests(files: Readonly<Record<string, string>>): { status: number | null; output: string } {
  const cache = join(repository, 'node_modules/.cache')
  mkdirSync(cache, { recursive: true })
  const root = mkdtempSync(join(cache, 'holdfast-second-look-'))
  try {
    writeFileSync(join(root, 'vitest.config.mjs'), "export default { test: { include: ['*.test.mjs'] } }\n")
    for (const [name, text] of Object.entries(files)) {
      const head = `import { existsSync, writeFileSync } from 'node:fs'\nimport { beforeAll, expect, it } from 'vitest'\n`
      const first = `const isFirst = !existsSync(new URL('./seen', import.meta.url))
        writeFileSync(new URL('./seen', import.meta.url), '')\n`
      writeFileSync(join(root, name), head + first + text)
    }
    const command = [join(repository, 'tools/test.mjs'), '--root', root]
    const { VITEST: _, ...env } = process.env
    const { status, stdout, stderr } = spawnSync(process.execPath, command, { encoding: 'utf8', env })
    return { status, output: stdout + stderr }
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

describe('the command that runs the tests', () => {
  it('says nothing of a run that passes', () => {
    const { status, output } = runTests({ 'a.test.mjs': "it('is well', () => {})" })
    expect(status).toBe(0)
    expect(output).not.toContain('UNSTABLE')
  })

  it('passes with what fails only beside others, and names it', () => {
    const { status, output } = runTests({
      'a.test.mjs': "it('is late', () => expect(isFirst).toBe(false))",
    })
    expect(output).toContain('UNSTABLE: all tests have passed, but these only alone, 2 of 2 times:')
    expect(output).toMatch(/a\.test\.mjs: is late\n +expected true to be false/)
    expect(status).toBe(0)
  })

  it('passes with a hook that fails only beside others, and names it', () => {
    const { status, output } = runTests({
      'a.test.mjs': "beforeAll(() => expect(isFirst).toBe(false))\nit('is well', () => {})",
    })
    expect(output).toContain('UNSTABLE')
    expect(status).toBe(0)
  })

  it.each([
    [
      'a test that fails always',
      "it('is late', () => expect(1).toBe(2))",
      'Failed alone as well, run 1 of 2',
    ],
    [
      'a hook that fails always',
      "beforeAll(() => expect(1).toBe(2))\nit('is well', () => {})",
      'Failed alone',
    ],
    [
      'what is about safety',
      "it('no two holders', () => expect(isFirst).toBe(false))",
      'what is about safety is not looked at again',
    ],
    [
      'what nobody caught',
      "it('is well', async () => { if (isFirst) { setTimeout(() => { throw new Error('stray') }); await new Promise((r) => setTimeout(r, 50)) } })",
      'outside of every test',
    ],
    ['a file that cannot be loaded', "import './nowhere.mjs'\nit('is well', () => {})", 'Failed alone'],
  ])('fails with %s', (_, text, why) => {
    const { status, output } = runTests({ 'a.test.mjs': text })
    expect(output).toContain(why)
    expect(status).toBe(1)
  })

  it('fails where there is no test', () => {
    const { status } = runTests({ 'a.mjs': '' })
    expect(status).toBe(1)
  })
})
