import { readdirSync } from 'node:fs'
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

describe('demo', () => {
  test('shows a takeover after a kill, and leaves nothing behind', async () => {
    const { exitCode, stdout, stderr } = await bench.holdfast(['demo', '--workers', '3', '--seconds', '5'], {
      TMPDIR: bench.folder,
    })
    expect(stderr).toBe('')
    expect(stdout).toMatch(/ok +\d+ hand-overs between 3 workers/)
    expect(stdout).toMatch(/ok +worker \d died by kill -9 while it held the lock, fence \d+/)
    expect(stdout).toMatch(/ok +worker \d took over \S+ later, when the lease had ended: fence \d+ -> \d+/)
    expect(stdout).toMatch(/ok +fences only grew/)
    expect(stdout).toMatch(/ok +the counter is exact: \d+ after \d+ increments/)
    expect(stdout).not.toContain('FAILED')
    expect(stdout).not.toContain('\u{1b}')
    expect(exitCode).toBe(0)
    expect(readdirSync(bench.folder)).toEqual([])
  })

  test('ends in order when it is interrupted', async () => {
    const running = bench.start(['demo', '--seconds', '60'], { TMPDIR: bench.folder })
    await running.prints('from hand to hand')
    running.process.kill('SIGINT')
    const { exitCode, stdout } = await running.ended
    expect(exitCode).toBe(130)
    expect(stdout).not.toContain('What was seen')
    expect(readdirSync(bench.folder)).toEqual([])
  })
})
