import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { type StressRun, stressLines } from '../../tools/test/stress-report.mjs'
import { isRunning, PlantedTests } from './planted-tests.js'

const busyScript = resolve(import.meta.dirname, '../../tools/test/busy.mjs')

let planted: PlantedTests | undefined

afterEach(() => {
  planted?.remove()
  planted = undefined
})

function run(failed: readonly string[], more: Partial<StressRun> = {}): StressRun {
  const tests = ['one', 'two', 'three'].map((title) => ({
    title,
    state: failed.includes(title) ? ('failed' as const) : ('passed' as const),
    ms: 1,
    tags: [],
    skipReason: null,
  }))
  const counts = { passed: 3 - failed.length, failed: failed.length, skipped: 0, pending: 0 }
  const times = { wallMs: 1, setupMs: 1, importMs: 1, testMs: 1 }
  return {
    steps: [{ name: 'tests', passed: failed.length === 0, detail: null, wallMs: 1 }],
    tests: {
      outcome: failed.length === 0 ? 'passed' : 'failed',
      files: [{ path: 'a.test.ts', project: '', store: '-', ...times, counts, tests }],
      failures: failed.map((title) => ({ file: 'a.test.ts', title, message: `${title} broke\nmore` })),
      unhandledErrors: [],
    },
    ...more,
  }
}

describe('the table of several runs', () => {
  it('says that nothing failed', () => {
    expect(stressLines([run([]), run([])])).toEqual({
      lines: ['', '0 of 3 tests failed in any of 2 runs'],
      hasFailed: false,
    })
  })

  it('lists how often each test failed, with its first message', () => {
    const { lines, hasFailed } = stressLines([run(['two']), run(['one', 'two']), run([])])
    expect(hasFailed).toBe(true)
    expect(lines).toEqual([
      '',
      'failed  test  file       first message',
      '2 of 3  two   a.test.ts  two broke',
      '1 of 3  one   a.test.ts  one broke',
      '',
      '2 of 3 tests failed in any of 3 runs',
    ])
  })

  it('lists errors outside of tests, other steps, and runs without tests', () => {
    const good = run([])
    const tests = { ...(good.tests as NonNullable<StressRun['tests']>), unhandledErrors: ['thrown late'] }
    const failed = { passed: false, detail: 'exit code 1', wallMs: 1 }
    const { lines } = stressLines([
      { steps: [{ name: 'tests', ...failed }], tests },
      { ...good, steps: [{ name: 'lab', ...failed }] },
      { steps: [{ name: 'tests', ...failed, passed: true }], tests: null },
    ])
    expect(lines.slice(2, -2).map((line) => line.replace(/ {2,}/g, '  '))).toEqual([
      '1 of 3  an error outside of every test: thrown late  -  thrown late',
      '1 of 3  the step `lab`  -  exit code 1',
      '1 of 3  the step `tests`  -  No test was run.',
    ])
    expect(lines.at(-1)).toBe('0 of 3 tests failed in any of 3 runs, and 3 other failures')
  })
})

describe('the stress command', () => {
  it('continues after a failure, and stops the busy processes', async () => {
    planted = new PlantedTests({
      'a.test.mjs': `
        import { appendFileSync, readFileSync } from 'node:fs'
        const path = new URL('./runs', import.meta.url)
        appendFileSync(path, 'x')
        it('fails in the first run', () => expect(readFileSync(path, 'utf8')).not.toBe('x'))
        it('passes', () => {})`,
    })
    const { code, output, lastLine } = await planted.run('stress.mjs', [
      '--busy',
      '1',
      '--runs',
      '2',
      'a.test.mjs',
    ])
    expect(readFileSync(join(planted.root, 'runs'), 'utf8')).toBe('xx')
    expect(output).toContain('== run 2 of 2, [1/1] tests')
    expect(output).toMatch(/^1 of 2 {2}fails in the first run {2}a\.test\.mjs {2}expected 'x' not to be 'x'/m)
    expect(lastLine).toBe('1 of 2 tests failed in any of 2 runs')
    expect(code).toBe(1)
    const pid = Number(/^Busy processes: (\d+)$/m.exec(output)?.[1])
    expect(pid).toBeGreaterThan(0)
    expect(isRunning(pid)).toBe(false)
  })

  it.each([[['--runs', '0']], [['--busy', 'all']], [['--plan', 'deep']]])('rejects %j', async (args) => {
    planted = new PlantedTests({})
    expect((await planted.run('stress.mjs', args)).code).toBe(2)
  })

  it('has busy processes that end when their parent is another process', async () => {
    const child = spawn(process.execPath, [busyScript, '1'])
    expect(await once(child, 'exit')).toEqual([0, null])
  })
})
