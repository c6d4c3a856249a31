import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Bench, requireBuild } from './command.js'

let bench: Bench
beforeAll(requireBuild)
beforeEach(() => {
  bench = new Bench()
})
afterEach(async () => {
  await bench.clear()
})

describe('torture', () => {
  test('runs on sqlite, writes the report, and leaves nothing else behind', async () => {
    const report = join(bench.folder, 'report.html')
    const args = ['torture', '--seconds', '4', '--workers', '2', '--seed', '3', '--report', report]
    const { exitCode, stdout, stderr } = await bench.holdfast([...args, '--faults', 'kill,pause'], {
      TMPDIR: bench.folder,
    })
    expect(stderr).toBe('')
    expect(stdout).toContain('No violation.')
    expect(stdout).toMatch(/Faults: kill \d+, pause \d+\./)
    expect(stdout).toContain(
      'holdfast torture --store sqlite --recipe line --faults kill,pause --seconds 4 --workers 2 --seed 3',
    )
    expect(exitCode).toBe(0)
    expect(readFileSync(report, 'utf8')).toContain('<html')
    expect(readdirSync(bench.folder)).toEqual(['report.html'])
  })

  test('fails with a lock that is broken, keeps the history, and prints an object', async () => {
    const history = join(bench.folder, 'history')
    const report = join(bench.folder, 'report.html')
    const { exitCode, stdout } = await bench.holdfast(
      ['torture', '--seconds', '3', '--faults', 'stall', '--json', '--history', history, '--report', report],
      { HOLDFAST_TORTURE_BROKEN: 'no-lock', TMPDIR: bench.folder },
    )
    expect(exitCode).toBe(1)
    const outcome = JSON.parse(stdout) as { verdict: { valid: boolean; violations: { kind: string }[] } }
    const kinds = new Set(outcome.verdict.violations.map(({ kind }) => kind))
    expect(outcome.verdict.valid).toBe(false)
    for (const kind of ['overlap', 'tripwire', 'lost-update']) expect(kinds).toContain(kind)
    expect(existsSync(join(history, 'w1.jsonl'))).toBe(true)
  })

  test('lists stores, recipes and faults', async () => {
    const { exitCode, stdout } = await bench.holdfast(['torture', '--list'])
    expect(exitCode).toBe(0)
    expect(stdout).toMatch(/^redis +redlock .*kill,pause,stall/m)
  })

  test.each([
    [['--store', 'abacus'], 'there is no store'],
    [['--store', 'redis', '--recipe', 'soup'], 'has no recipe'],
    [['--faults', 'kill,gremlins'], 'there is no fault'],
    [['--faults', 'failover'], 'cannot have the fault'],
    [['--seconds', '0'], 'whole number'],
    [['--url', 'sqlite:x', '--store', 'redis'], 'cannot be used with'],
  ])('refuses %j', async (args, text) => {
    const { exitCode, stderr } = await bench.holdfast(['torture', ...args])
    expect(stderr).toContain(text)
    expect(exitCode).toBe(64)
  })

  test('ends in order when it is interrupted', async () => {
    const running = bench.start(['torture', '--seconds', '60'], { TMPDIR: bench.folder })
    await running.prints(' faults:')
    running.process.kill('SIGINT')
    const { exitCode } = await running.ended
    expect(exitCode).toBe(130)
    expect(readdirSync(bench.folder)).toEqual([])
  })
})
