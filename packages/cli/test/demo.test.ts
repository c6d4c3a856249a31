import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Bench, MAIN, requireBuild } from './command.js'

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

  test.each([
    ['SIGINT', 130],
    ['SIGHUP', 129],
  ] as const)('ends in order on %s', async (signal, code) => {
    const running = bench.start(['demo', '--workers', '2', '--seconds', '60'], { TMPDIR: bench.folder })
    await running.prints('from hand to hand')
    running.process.kill(signal)
    const { exitCode, stdout } = await running.ended
    expect(exitCode).toBe(code)
    expect(stdout).not.toContain('What was seen')
    expect(readdirSync(bench.folder)).toEqual([])
  })

  test('ends in order when its reader goes away', async () => {
    const running = bench.start(['demo', '--workers', '2', '--seconds', '60'], { TMPDIR: bench.folder })
    await running.prints('from hand to hand')
    running.process.stdout?.destroy()
    const { exitCode, stderr } = await running.ended
    expect(exitCode).toBe(0)
    expect(stderr).toBe('')
    expect(readdirSync(bench.folder)).toEqual([])
  })

  test.runIf(existsSync('/dev/full'))(
    'ends in order when its output cannot be written (does not apply without /dev/full)',
    async () => {
      const command = `exec "${process.execPath}" "${MAIN}" demo --workers 2 --seconds 60 > /dev/full`
      const child = spawn('sh', ['-c', command], { env: { ...process.env, TMPDIR: bench.folder } })
      let stderr = ''
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        stderr += text
      })
      const exitCode = await new Promise((resolve) => {
        child.once('close', resolve)
      })
      expect(stderr).toBe('holdfast: standard output cannot be written (ENOSPC)\n')
      expect(exitCode).toBe(70)
      expect(readdirSync(bench.folder)).toEqual([])
    },
  )
})
