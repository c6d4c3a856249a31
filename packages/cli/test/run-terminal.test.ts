// @module-tag exclusion
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../../test/support/wait.js'
import { MAIN, requireBuild } from './command.js'
import { isLinux, SLOW, STUBBORN, WorkerBench } from './workers.js'

let bench: WorkerBench
beforeAll(requireBuild)
beforeEach(() => {
  bench = new WorkerBench()
})
afterEach(() => bench.clear())

const hasScript = isLinux && spawnSync('script', ['--version']).status === 0

describe.runIf(hasScript)('at a terminal (does not apply where script(1) of util-linux is missing)', () => {
  /** `script` gives the command a terminal, on which its input is typed. */
  function startAtTerminal(options: readonly string[], shell: string): ReturnType<typeof spawn> {
    writeFileSync(join(bench.folder, 'work.sh'), shell)
    const words = [process.execPath, MAIN, 'run', 'a', '--url', bench.url, ...options, '--', 'sh', 'work.sh']
    const line = words.map((word) => `'${word}'`).join(' ')
    return spawn('script', ['--quiet', '--return', '--flush', '--command', line, 'typescript'], {
      cwd: bench.folder,
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    })
  }

  async function exitOf(terminal: ReturnType<typeof spawn>): Promise<number | null> {
    if (terminal.exitCode !== null) return terminal.exitCode
    return await new Promise((resolve) => {
      terminal.once('exit', resolve)
    })
  }

  test('keeps the lock until the processes that the command has left in the background have ended', async () => {
    const terminal = startAtTerminal([], `${bench.writeWorker('left', STUBBORN)} & exit 3`)
    const screen = (): string => readFileSync(join(bench.folder, 'typescript'), 'utf8')
    await until(
      'it reports the wait',
      () => screen().includes('the lock is kept') || terminal.exitCode !== null,
    )
    expect(await bench.holders()).toBe(1)
    bench.endWorkers()
    expect(await exitOf(terminal)).toBe(3)
    expect(await bench.holders()).toBe(0)
  })

  test.each([
    ['SIGTERM reaches the processes that the command has started, and the lock is kept until they end', ''],
    ['counts a process without an environment after its parent has ended', 'env -i '],
  ])('%s', async (_title, prefix) => {
    const terminal = startAtTerminal([], `${prefix}${bench.writeWorker('first', SLOW)}; true`)
    await bench.logged('first starts')
    const second = bench.startShell(['--wait', 'forever'], 'echo second >> log')
    const view = await until('the second waits', async () => {
      const seen = await bench.inspect('a')
      return seen.waiters.length === 1 && seen
    })
    process.kill(view.holders[0]?.owner.pid ?? 0, 'SIGTERM')
    expect(await exitOf(terminal)).toBe(143)
    expect((await second.ended).exitCode).toBe(0)
    expect(bench.log()).toEqual(['first starts', 'first SIGTERM', 'first ends', 'second'])
  })

  test('Ctrl-C reaches each process once, and the lock is kept until they end', async () => {
    const terminal = startAtTerminal([], `${bench.writeWorker('first', SLOW)}; true`)
    await bench.logged('first starts')
    terminal.stdin?.write('\u{3}')
    await exitOf(terminal)
    expect(bench.log()).toEqual(['first starts', 'first SIGINT', 'first ends'])
    expect(await bench.holders()).toBe(0)
  })
})
