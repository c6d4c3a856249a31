import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { isPlanName, plans, stepsOf } from '../../tools/test/plans.mjs'
import type { RunData } from '../../tools/test/report.mjs'
import { until, within } from '../support/wait.js'
import { isRunning, PlantedTests } from './planted-tests.js'

let planted: PlantedTests | undefined

afterEach(() => {
  planted?.remove()
  planted = undefined
})

function plant(files: Readonly<Record<string, string>>, config?: string): PlantedTests {
  planted = new PlantedTests(files, config)
  return planted
}

describe('a run of the tests', () => {
  it('passes, prints a line for each file and ends with the totals', async () => {
    const tests = plant(
      {
        'redis-a.test.mjs': `
        import { existsSync } from 'node:fs'
        describe('suite', { tags: ['fencing'] }, () => {
          it('one', () => { console.log('printed by a test that passes') })
          it('two (skipped: it needs rain)', (context) => context.skip())
        })
        it('three', (context) => context.skip('no server'))
        it('slow', async () => {
          const go = new URL('./go', import.meta.url)
          while (!existsSync(go)) await new Promise((done) => setTimeout(done, 20))
        })`,
      },
      "tags: [{ name: 'fencing' }]",
    )
    const json = join(tests.root, 'run.json')
    const started = tests.start('run.mjs', ['full', '--json', json, 'redis-a'])
    // Vitest can hold back the news that the test has started until the next one, so either text is right.
    const stillRunning = /redis-a\.test\.mjs {2}still running after .* s, (at: .*|between tests)$/m
    await until('the file is called slow', () => stillRunning.test(started.printed()), {
      state: () => started.printed(),
    })
    writeFileSync(join(tests.root, 'go'), '')
    const result = await within('the run ends', started.ended, { state: () => started.printed() })
    expect(result.output).toContain('== [1/1] tests')
    expect(result.output).toMatch(
      /^\[1\/1\] redis {6}redis-a\.test\.mjs {2}2 passed, 2 skipped {2}\d+\.\d s$/m,
    )
    expect(result.output).not.toContain('printed by a test that passes')
    expect(result.lastLine).toBe('2 passed, 0 failed, 2 skipped')
    expect(result.code).toBe(0)
    const data = JSON.parse(readFileSync(json, 'utf8')) as RunData
    expect(data.steps).toMatchObject([{ name: 'tests', result: 'passed', detail: null }])
    expect(data.tests).toMatchObject({
      outcome: 'passed',
      failures: [],
      unhandledErrors: [],
      files: [{ path: 'redis-a.test.mjs', store: 'redis', counts: { passed: 2, failed: 0, skipped: 2 } }],
    })
    expect(data.tests?.files[0]?.tests).toMatchObject([
      { title: 'suite > one', state: 'passed', tags: ['fencing'], skipReason: null },
      {
        title: 'suite > two (skipped: it needs rain)',
        state: 'skipped',
        skipReason: 'skipped: it needs rain',
      },
      { title: 'three', state: 'skipped', tags: [], skipReason: 'no server' },
      { title: 'slow', state: 'passed' },
    ])
  })

  it('names all that failed: tests, hooks, files without tests, errors outside of tests, unexplained skips', async () => {
    const tests = plant({
      'a.test.mjs': `
        it('fails', () => { console.log('printed by a file that fails'); expect({ a: 1 }).toEqual({ a: 2 }) })
        it.skip('is left out', () => {})`,
      'b.test.mjs': `
        describe('suite', () => {
          beforeAll(() => { throw new Error('the hook broke') })
          it('is not reached', () => {})
        })`,
      'c.test.mjs': `
        it('passes', async () => {
          setTimeout(() => { throw new Error('thrown late') })
          await new Promise((done) => setTimeout(done, 50))
        })`,
      'd.test.mjs': '',
      'e.test.mjs': "import './nowhere.mjs'\nit('is not reached', () => {})",
    })
    const { code, output, lastLine } = await tests.run('run.mjs', ['full', 'test.mjs'])
    expect(output).toMatch(/^\[\d\/5\] - {10}a\.test\.mjs {2}FAILED {2}1 failed, 1 skipped {2}/m)
    expect(output).toMatch(/^ +FAILED: fails: expected \{ a: 1 \} to deeply equal \{ a: 2 \}$/m)
    expect(output).toContain('printed by a file that fails')
    // The diff and the position in the source.
    expect(output).toMatch(/-\s+"a": 2/)
    expect(output).toMatch(/a\.test\.mjs:\d+:\d+/)
    const report = output.slice(output.indexOf('== report of'))
    expect(report).toContain('  a.test.mjs: fails: expected { a: 1 }')
    expect(report).toContain('  b.test.mjs: suite (the suite): the hook broke')
    expect(report).toContain('  d.test.mjs: (the file): No test suite found')
    expect(report).toContain('  e.test.mjs: (the file): ')
    expect(report).toContain('  an error outside of every test: thrown late')
    expect(report).toContain('  1 test was skipped without a reason.')
    expect(report).toContain('  a.test.mjs: is left out')
    expect(report).toMatch(/tests .* failed: exit code 1$/m)
    expect(lastLine).toBe('1 passed, 6 failed, 2 skipped')
    expect(code).toBe(1)
  })

  it('names the tests and files that a crashed worker did not run', async () => {
    const files = {
      'a.test.mjs': `
        it('kills the worker', async () => {
          process.kill(process.pid, 'SIGKILL')
          await new Promise((done) => setTimeout(done, 10_000))
        })`,
      'b.test.mjs': "it('passes', () => {})",
    }
    const tests = plant(files, 'isolate: false, maxWorkers: 1, sequence: { shuffle: false },')
    const { code, output, lastLine } = await tests.run('run.mjs', ['full', 'test.mjs'])
    expect(output).toContain('  a.test.mjs: kills the worker: The test did not finish.')
    expect(output).toContain('  b.test.mjs: (the file): The file was not run.')
    expect(output).toMatch(/ {2}an error outside of every test: .*Worker/)
    expect(lastLine).toBe('0 passed, 4 failed, 0 skipped')
    expect(code).toBe(1)
  })

  it('fails if no test was found', async () => {
    const { code, output, lastLine } = await plant({ 'a.mjs': '' }).run('run.mjs', ['full', 'a.test.mjs'])
    expect(output).toContain('  No test was run.')
    expect(lastLine).toMatch(/^0 passed, [1-9] failed, 0 skipped$/)
    expect(code).toBe(1)
  })

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('is no pass when %s interrupts it, and leaves no process', async (signal, expected) => {
    const tests = plant({
      'a.test.mjs': `
        import { writeFileSync } from 'node:fs'
        it('passes', () => {})
        it('waits', async () => {
          await new Promise((done) => setTimeout(done, 300))
          writeFileSync(new URL('./worker', import.meta.url), String(process.pid))
          await new Promise((done) => setTimeout(done, 60_000))
        }, 60_000)`,
    })
    const started = tests.start('run.mjs', ['full', 'a.test.mjs'])
    const marker = join(tests.root, 'worker')
    await until('the test runs', () => existsSync(marker) && readFileSync(marker, 'utf8') !== '', {
      state: () => started.printed(),
    })
    started.child.kill(signal)
    const { code, output, lastLine } = await started.ended
    expect(output).toContain(`The run was interrupted by ${signal}.`)
    // Vitest hands over results with a delay, so the interruption can come before the result of the first test.
    expect(lastLine).toMatch(/^[01] passed, 1 failed, 0 skipped$/)
    expect(code).toBe(expected)
    expect(isRunning(Number(readFileSync(marker, 'utf8')))).toBe(false)
  })
})

describe('a whole plan', () => {
  const scripts = (servers: string, build: string) => ({
    'package.json': JSON.stringify({
      private: true,
      scripts: { servers: `node ${servers}`, build: `node ${build}` },
    }),
    'good.mjs': '',
    'bad.mjs': 'process.exit(3)',
  })

  it('ends after a failed install, and reports the steps that were not run', async () => {
    const { code, output, lastLine } = await plant(scripts('bad.mjs', 'good.mjs')).run('run.mjs', ['full'])
    expect(output.match(/^== \[.*$/gm)).toEqual(['== [1/9] install'])
    expect(output).toMatch(/^ {2}install .* failed: exit code 3$/m)
    expect(output).toMatch(/^ {2}tests +- +- {2}not run$/m)
    expect(lastLine).toBe('0 passed, 1 failed, 0 skipped')
    expect(code).toBe(1)
  })

  it('runs all other steps also after one has failed, or was ended by a signal', async () => {
    const tests = plant({
      ...scripts('good.mjs', 'good.mjs'),
      'a.test.mjs': "it('passes', () => {})",
      'packages/torture/dist/sim/main.js': "process.kill(process.pid, 'SIGKILL')",
      'packages/cli/dist/main.js': '',
      'packages/torture/dist/lab/mutants.js': '',
      'packages/torture/dist/surroundings/main.js': '',
    })
    const { code, output, lastLine } = await tests.run('run.mjs', ['full'])
    expect(output.match(/^== \[.*$/gm)).toHaveLength(9)
    expect(output).toContain('  The step `simulation` failed: ended by SIGKILL.')
    expect(output).toContain('  The step `torture` failed: exit code 1.')
    expect(output).toMatch(/^ {2}mutants .* passed$/m)
    expect(lastLine).toBe('1 passed, 2 failed, 0 skipped')
    expect(code).toBe(1)
  })
})

describe('the command line', () => {
  it('shows every step of every plan with --help', async () => {
    const { code, output } = await plant({}).run('run.mjs', ['--help'])
    for (const { steps } of Object.values(plans)) for (const { what } of steps) expect(output).toContain(what)
    expect(code).toBe(0)
  })

  it.each([
    ['no plan', []],
    ['an unknown plan', ['slow']],
    ['an unknown option', ['quick', '--fast']],
    ['files with deep', ['deep', 'a.test.mjs']],
  ])('rejects %s', async (_, args) => {
    const { code, output } = await plant({}).run('run.mjs', args)
    expect(output).toContain('`--help` shows the usage.')
    expect(code).toBe(2)
  })
})

describe('the plans', () => {
  it('have a step that runs tests, and explain each step with a sentence', () => {
    for (const { steps } of Object.values(plans)) {
      expect(steps.map(({ name }) => name)).toContain('tests')
      for (const { what } of steps) expect(what).toMatch(/^[A-Z].*\.$/)
    }
  })

  it('run only the tests if files are given', () => {
    const steps = stepsOf('full', ['a.test.ts', 'b.test.ts'])
    expect(steps.map(({ name }) => name)).toEqual(['tests'])
    expect(steps[0]?.args.slice(-2)).toEqual(['a.test.ts', 'b.test.ts'])
    expect(stepsOf('full', [])).toBe(plans.full.steps)
  })

  it('are found by name', () => {
    expect(['quick', 'toString', undefined].map(isPlanName)).toEqual([true, false, false])
  })
})
