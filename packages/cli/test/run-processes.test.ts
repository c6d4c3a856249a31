// @module-tag exclusion
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { turns, until, within } from '../../../test/support/wait.js'
import { requireBuild } from './command.js'
import { isAlive, isLinux, POLITE, SLOW, STUBBORN, stateOf, WorkerBench } from './workers.js'

let bench: WorkerBench
beforeAll(requireBuild)
beforeEach(() => {
  bench = new WorkerBench()
})
afterEach(() => bench.clear())

describe('SIGTERM', () => {
  test('keeps the lock until the processes that the command has started have ended', async () => {
    const first = bench.startShell([], `${bench.writeWorker('first', SLOW)}; true`)
    await bench.logged('first starts')
    const second = bench.startShell(['--wait', 'forever'], 'echo second >> log')
    await until('the second waits', async () => (await bench.inspect('a')).waiters.length === 1)
    first.process.kill('SIGTERM')
    expect((await first.ended).exitCode).toBe(143)
    expect((await second.ended).exitCode).toBe(0)
    expect(bench.log()).toEqual(['first starts', 'first SIGTERM', 'first ends', 'second'])
  })

  test('reaches the command and the processes that it has started', async () => {
    const worker = bench.writeWorker('stubborn', STUBBORN)
    const running = bench.startShell(['--grace', '10m'], `trap '' TERM; ${worker} & ${worker}; wait`)
    await until('both have started', () => bench.log().length === 2)
    running.process.kill('SIGTERM')
    await until('both have received it', () => bench.log().length === 4, { state: () => bench.log() })
    expect(bench.log().filter((line) => line === 'stubborn SIGTERM')).toHaveLength(2)
    expect(await bench.holders()).toBe(1)
  })

  test('is followed by SIGKILL after --grace, for the command and the processes that it has started', async () => {
    const worker = bench.writeWorker('stubborn', STUBBORN)
    const running = bench.startShell(['--grace', '500ms'], `trap '' TERM; ${worker} & ${worker}; true`)
    await until('both have started', () => bench.log().length === 2)
    running.process.kill('SIGTERM')
    expect((await running.ended).exitCode).toBe(137)
    expect(bench.log()).not.toContain('stubborn ends')
    expect(await bench.holders()).toBe(0)
  })

  test('reaches the command again when it is sent again, and holdfast waits for the end', async () => {
    const script = `let times = 0
      process.on('SIGTERM', () => { times += 1; console.log('times ' + times); if (times === 2) process.exit(6) })
      setInterval(() => {}, 1_000); console.log('ready')`
    const running = bench.startUnder(['a', '--grace', '10m'], script)
    await running.prints('ready')
    running.process.kill('SIGTERM')
    await running.prints('times 1')
    expect(await bench.holders()).toBe(1)
    running.process.kill('SIGTERM')
    expect((await running.ended).exitCode).toBe(6)
  })

  test.runIf(isLinux)(
    'reaches processes that have a process group of their own (does not apply outside Linux)',
    async () => {
      const running = bench.startShell([], `timeout 600 ${bench.writeWorker('apart', POLITE)}; true`)
      await bench.logged('apart starts')
      running.process.kill('SIGTERM')
      await running.ended
      expect(bench.log()).toContain('apart SIGTERM')
      expect(await bench.holders()).toBe(0)
    },
  )
})

describe('a command that leaves processes in the background', () => {
  test('keeps the lock until they have ended, and its own exit code comes back', async () => {
    const running = bench.startShell([], `${bench.writeWorker('left', POLITE)} & exit 3`)
    await until('it reports the wait', () => running.stderr.includes('the lock is kept') || running.hasEnded)
    expect(await bench.holders()).toBe(1)
    bench.endWorkers()
    const { exitCode, stderr } = await running.ended
    expect(exitCode).toBe(3)
    expect(stderr).toMatch(/^holdfast: the command has ended, but left 1 process \(pid \d+\) running; .*\n$/)
    expect(bench.log()).toEqual(['left starts', 'left ends'])
    expect(await bench.holders()).toBe(0)
  })

  test('keeps the lock although its output is not read', async () => {
    const running = bench.startShell([], `${bench.writeWorker('left', POLITE)} & exit 3`)
    running.process.stdout?.destroy()
    running.process.stderr?.destroy()
    await bench.logged('left starts')
    // The report comes after a second.
    await turns(150)
    expect(await bench.holders()).toBe(1)
    bench.endWorkers()
    expect((await running.ended).exitCode).toBe(3)
    expect(await bench.holders()).toBe(0)
  })

  test('stops them with --background stop', async () => {
    const running = bench.startShell(
      ['--background', 'stop'],
      `${bench.writeWorker('left', POLITE)} & while ! grep -q starts log; do sleep 0.05; done; exit 3`,
    )
    expect((await running.ended).exitCode).toBe(3)
    expect(bench.log()).toEqual(['left starts', 'left SIGTERM'])
  })

  test('releases the lock at once with --background ignore', async () => {
    const worker = `${bench.writeWorker('left', POLITE)} > output 2>&1`
    const running = bench.startShell(['--background', 'ignore'], `${worker} & exit 3`)
    expect((await running.ended).exitCode).toBe(3)
    expect(await bench.holders()).toBe(0)
    expect(bench.log()).not.toContain('left ends')
    bench.endWorkers()
    await bench.logged('left ends')
  })

  test.each(['SIGINT', 'SIGTERM'] as const)('stops them on %s', async (signal) => {
    const running = bench.startShell([], `${bench.writeWorker('left', POLITE)} & exit 3`)
    await until('it reports the wait', () => running.stderr.includes('the lock is kept'))
    running.process.kill(signal)
    expect((await running.ended).exitCode).toBe(3)
    expect(bench.log()).toEqual(['left starts', 'left SIGTERM'])
  })

  test('stops them when SIGINT has ended the command', async () => {
    const worker = bench.writeWorker('left', POLITE)
    // In the shell's background the worker gets SIGINT too, and goes on.
    const running = bench.startShell(
      [],
      `${worker} & exec "${process.execPath}" -e 'setInterval(() => {}, 1_000)'`,
    )
    await bench.logged('left starts')
    running.process.kill('SIGINT')
    expect((await running.ended).exitCode).toBe(130)
    expect(bench.log()).toEqual(['left starts', 'left SIGINT', 'left SIGTERM'])
  })

  test('stops them when the lock is lost', async () => {
    const running = bench.startShell(['--ttl', '2s'], `${bench.writeWorker('left', POLITE)} & exit 3`)
    await until('it reports the wait', () => running.stderr.includes('the lock is kept'))
    await bench.holdfast(['break', 'a', '--reason', 'test'])
    expect((await running.ended).exitCode).toBe(79)
    expect(bench.log()).toEqual(['left starts', 'left SIGTERM'])
  })

  test.runIf(isLinux)(
    'does not wait for zombies, nor for a process that has left the session (does not apply outside Linux)',
    async () => {
      // The process that leaves has a child in the old session, and does not collect it.
      const leaver = `sh -c 'sleep 0 & echo $$ > leaver; exec setsid sleep 600' > output 2>&1`
      const running = bench.startShell([], `${leaver} & sleep 0.3; exit 3`)
      const { exitCode } = await within('holdfast ends', running.ended)
      const pid = Number(readFileSync(join(bench.folder, 'leaver'), 'utf8'))
      const wasAlive = isAlive(pid)
      process.kill(pid, 'SIGKILL')
      expect(exitCode).toBe(3)
      expect(wasAlive).toBe(true)
    },
  )
})

test('an internal error of holdfast kills the processes of the command', async () => {
  writeFileSync(
    join(bench.folder, 'crash.cjs'),
    `const timer = setInterval(() => { if (require('node:fs').existsSync('${join(bench.folder, 'crash')}')) throw new Error('planted') }, 10)
     timer.unref()`,
  )
  const untilGo = `echo started; while ! test -e '${join(bench.folder, 'go')}'; do sleep 0.1; done`
  const running = bench.start(['run', 'a', '--', 'sh', '-c', untilGo], {
    NODE_OPTIONS: `--require ${join(bench.folder, 'crash.cjs')}`,
  })
  await running.prints('started')
  writeFileSync(join(bench.folder, 'crash'), '')
  // The output is open until the last process has ended.
  const { exitCode, stderr } = await within('all processes end', running.ended, { limitMs: 20_000 })
  expect(exitCode).toBe(70)
  expect(stderr).toBe('holdfast: internal error: planted\n')
})

describe('a pause', () => {
  test('by SIGTSTP stops the command, and its lock is renewed meanwhile', async () => {
    const running = bench.startUnder(
      ['a', '--ttl', '10s'],
      `console.log('pid ' + process.pid); setInterval(() => {}, 1_000)`,
    )
    await running.prints('\n')
    const pid = Number(/pid (\d+)/.exec(running.stdout)?.[1])
    running.process.kill('SIGTSTP')
    await until('the command has stopped', () => stateOf(pid).startsWith('T'))
    const leftMs = async (): Promise<number> => (await bench.inspect('a')).holders[0]?.remainingMs ?? 0
    const before = await leftMs()
    await until('the lease is longer than before', async () => (await leftMs()) > before)
    running.process.kill('SIGCONT')
    await until('the command goes on', () => !stateOf(pid).startsWith('T'))
    running.process.kill('SIGTERM')
    expect((await running.ended).exitCode).toBe(143)
  })

  test('of holdfast that is longer than the lease stops the command when it is over', async () => {
    const running = bench.startUnder(
      ['a', '--ttl', '1s'],
      `process.on('SIGTERM', () => { console.log('got SIGTERM'); process.exit(0) })
       setInterval(() => {}, 1_000); console.log('held')`,
    )
    await running.prints('held')
    running.process.kill('SIGSTOP')
    await until('the lease is over', async () => (await bench.holders()) === 0)
    running.process.kill('SIGCONT')
    const { exitCode, stdout, stderr } = await running.ended
    expect(exitCode).toBe(79)
    expect(stdout).toBe('held\ngot SIGTERM\n')
    expect(stderr).toContain('was lost (expired)')
  })
})
