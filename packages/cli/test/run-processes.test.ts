// @module-tag exclusion
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { turns, until, within } from '../../../test/support/wait.js'
import { Bench, MAIN, type Running, requireBuild } from './command.js'

const isLinux = process.platform === 'linux'

let bench: Bench
beforeAll(requireBuild)
beforeEach(() => {
  bench = new Bench()
})
afterEach(async () => {
  // Workers end when this file is there, also those of a test that failed.
  writeFileSync(join(bench.folder, 'go'), '')
  await bench.clear()
})

/** What all workers do: write to a log that the test reads, and end when the test says so. */
const WORKER = `
  const { appendFileSync, existsSync, readFileSync } = require('node:fs')
  const log = (line) => appendFileSync('log', process.argv[2] + ' ' + line + '\\n')
  const waitFor = (look, then) => (look() ? then() : setTimeout(waitFor, 10, look, then))
  const end = () => { log('ends'); process.exit(0) }
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => onSignal(signal))
  let onSignal = (signal) => log(signal)
  waitFor(() => existsSync('go'), end)
`

/** Ends some time after SIGTERM, or when it sees that another holder runs. */
const SLOW = `${WORKER}
  onSignal = (signal) => {
    log(signal)
    const until = performance.now() + 1_500
    waitFor(() => performance.now() > until || readFileSync('log', 'utf8').includes('second'), end)
  }
  log('starts')`

/** Goes on after signals. */
const STUBBORN = `${WORKER}\nlog('starts')`

/** Ends on SIGTERM only, as programs do that a shell has started in the background. */
const POLITE = `${WORKER}
  onSignal = (signal) => { log(signal); if (signal === 'SIGTERM') process.exit(0) }
  log('starts')`

function writeWorker(name: string, script: string): string {
  writeFileSync(join(bench.folder, `${name}.cjs`), script)
  return `"${process.execPath}" ${name}.cjs ${name}`
}

function log(): readonly string[] {
  const path = join(bench.folder, 'log')
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : []
}

/** Runs a shell script in the folder of the test, under the lock `a`. */
function startShell(options: readonly string[], script: string): Running {
  const inFolder = `cd '${bench.folder}' || exit 9; ${script}`
  return bench.start(['run', 'a', ...options, '--', 'sh', '-c', inFolder])
}

async function logged(line: string): Promise<void> {
  await until(`the log has "${line}"`, () => log().includes(line), { state: log })
}

async function holders(): Promise<number> {
  return (await bench.inspect('a')).holders.length
}

function isAlive(pid: number): boolean {
  return spawnSync('ps', ['-p', String(pid), '-o', 'pid=']).status === 0
}

describe('SIGTERM', () => {
  test('keeps the lock until the processes that the command has started have ended', async () => {
    const first = startShell([], `${writeWorker('first', SLOW)}; true`)
    await logged('first starts')
    const second = startShell(['--wait', 'forever'], 'echo second >> log')
    await until('the second waits', async () => (await bench.inspect('a')).waiters.length === 1)
    first.process.kill('SIGTERM')
    expect((await first.ended).exitCode).toBe(143)
    expect((await second.ended).exitCode).toBe(0)
    expect(log()).toEqual(['first starts', 'first SIGTERM', 'first ends', 'second'])
  })

  test('is followed by SIGKILL after --grace, for the command and the processes that it has started', async () => {
    const worker = writeWorker('stubborn', STUBBORN)
    const running = startShell(['--grace', '500ms'], `trap '' TERM; ${worker} & ${worker}; true`)
    await until('both have started', () => log().length === 2)
    running.process.kill('SIGTERM')
    expect((await running.ended).exitCode).toBe(137)
    expect(log().filter((line) => line === 'stubborn SIGTERM')).toHaveLength(2)
    expect(log()).not.toContain('stubborn ends')
    expect(await holders()).toBe(0)
  })

  test('reaches the command again when it is sent again, and holdfast waits for the end', async () => {
    const script = `let times = 0
      process.on('SIGTERM', () => { times += 1; console.log('times ' + times); if (times === 2) process.exit(6) })
      setInterval(() => {}, 1_000); console.log('ready')`
    const running = bench.startUnder(['a', '--grace', '10m'], script)
    await running.prints('ready')
    running.process.kill('SIGTERM')
    await running.prints('times 1')
    expect(await holders()).toBe(1)
    running.process.kill('SIGTERM')
    expect((await running.ended).exitCode).toBe(6)
  })

  test.runIf(isLinux)(
    'reaches processes that have a process group of their own (does not apply outside Linux)',
    async () => {
      const running = startShell([], `timeout 600 ${writeWorker('apart', POLITE)}; true`)
      await logged('apart starts')
      running.process.kill('SIGTERM')
      await running.ended
      expect(log()).toContain('apart SIGTERM')
      expect(await holders()).toBe(0)
    },
  )
})

describe('a command that leaves processes in the background', () => {
  test('keeps the lock until they have ended, and its own exit code comes back', async () => {
    const running = startShell([], `${writeWorker('left', POLITE)} & exit 3`)
    await until('it reports the wait', () => running.stderr.includes('the lock is kept') || running.hasEnded)
    expect(await holders()).toBe(1)
    writeFileSync(join(bench.folder, 'go'), '')
    const { exitCode, stderr } = await running.ended
    expect(exitCode).toBe(3)
    expect(stderr).toMatch(/^holdfast: the command has ended, but left 1 process \(pid \d+\) running; .*\n$/)
    expect(log()).toEqual(['left starts', 'left ends'])
    expect(await holders()).toBe(0)
  })

  test('keeps the lock although its output is not read', async () => {
    const running = startShell([], `${writeWorker('left', POLITE)} & exit 3`)
    running.process.stdout?.destroy()
    running.process.stderr?.destroy()
    await logged('left starts')
    // The report comes after a second.
    await turns(150)
    expect(await holders()).toBe(1)
    writeFileSync(join(bench.folder, 'go'), '')
    expect((await running.ended).exitCode).toBe(3)
    expect(await holders()).toBe(0)
  })

  test('stops them with --background stop', async () => {
    const running = startShell(
      ['--background', 'stop'],
      `${writeWorker('left', POLITE)} & while ! grep -q starts log; do sleep 0.05; done; exit 3`,
    )
    expect((await running.ended).exitCode).toBe(3)
    expect(log()).toEqual(['left starts', 'left SIGTERM'])
  })

  test('releases the lock at once with --background ignore', async () => {
    const worker = `${writeWorker('left', POLITE)} > output 2>&1`
    const running = startShell(['--background', 'ignore'], `${worker} & exit 3`)
    expect((await running.ended).exitCode).toBe(3)
    expect(await holders()).toBe(0)
    expect(log()).not.toContain('left ends')
    writeFileSync(join(bench.folder, 'go'), '')
    await logged('left ends')
  })

  test.each(['SIGINT', 'SIGTERM'] as const)('stops them on %s', async (signal) => {
    const running = startShell([], `${writeWorker('left', POLITE)} & exit 3`)
    await until('it reports the wait', () => running.stderr.includes('the lock is kept'))
    running.process.kill(signal)
    expect((await running.ended).exitCode).toBe(3)
    expect(log()).toEqual(['left starts', 'left SIGTERM'])
  })

  test('stops them when SIGINT has ended the command', async () => {
    const worker = writeWorker('left', POLITE)
    // In the shell's background the worker gets SIGINT too, and goes on.
    const running = startShell([], `${worker} & exec "${process.execPath}" -e 'setInterval(() => {}, 1_000)'`)
    await logged('left starts')
    running.process.kill('SIGINT')
    expect((await running.ended).exitCode).toBe(130)
    expect(log()).toEqual(['left starts', 'left SIGINT', 'left SIGTERM'])
  })

  test('stops them when the lock is lost', async () => {
    const running = startShell(['--ttl', '2s'], `${writeWorker('left', POLITE)} & exit 3`)
    await until('it reports the wait', () => running.stderr.includes('the lock is kept'))
    await bench.holdfast(['break', 'a', '--reason', 'test'])
    expect((await running.ended).exitCode).toBe(79)
    expect(log()).toEqual(['left starts', 'left SIGTERM'])
  })

  test.runIf(isLinux)(
    'does not wait for zombies, nor for a process that has left the session (does not apply outside Linux)',
    async () => {
      // The process that leaves has a child in the old session, and does not collect it.
      const leaver = `sh -c 'sleep 0 & echo $$ > leaver; exec setsid sleep 600' > output 2>&1`
      const running = startShell([], `${leaver} & sleep 0.3; exit 3`)
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
    const state = (): string =>
      spawnSync('ps', ['-p', String(pid), '-o', 'stat='], { encoding: 'utf8' }).stdout
    running.process.kill('SIGTSTP')
    await until('the command has stopped', () => state().startsWith('T'))
    const leftMs = async (): Promise<number> => (await bench.inspect('a')).holders[0]?.remainingMs ?? 0
    const before = await leftMs()
    await until('the lease is longer than before', async () => (await leftMs()) > before)
    running.process.kill('SIGCONT')
    await until('the command goes on', () => !state().startsWith('T'))
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
    await until('the lease is over', async () => (await holders()) === 0)
    running.process.kill('SIGCONT')
    const { exitCode, stdout, stderr } = await running.ended
    expect(exitCode).toBe(79)
    expect(stdout).toBe('held\ngot SIGTERM\n')
    expect(stderr).toContain('was lost (expired)')
  })
})

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
    const terminal = startAtTerminal([], `${writeWorker('left', STUBBORN)} & exit 3`)
    const screen = (): string => readFileSync(join(bench.folder, 'typescript'), 'utf8')
    await until(
      'it reports the wait',
      () => screen().includes('the lock is kept') || terminal.exitCode !== null,
    )
    expect(await holders()).toBe(1)
    writeFileSync(join(bench.folder, 'go'), '')
    expect(await exitOf(terminal)).toBe(3)
    expect(await holders()).toBe(0)
  })

  test('SIGTERM reaches the processes that the command has started, and the lock is kept until they end', async () => {
    const terminal = startAtTerminal([], `${writeWorker('first', SLOW)}; true`)
    await logged('first starts')
    const second = startShell(['--wait', 'forever'], 'echo second >> log')
    const view = await until('the second waits', async () => {
      const seen = await bench.inspect('a')
      return seen.waiters.length === 1 && seen
    })
    process.kill(view.holders[0]?.owner.pid ?? 0, 'SIGTERM')
    expect(await exitOf(terminal)).toBe(143)
    expect((await second.ended).exitCode).toBe(0)
    expect(log()).toEqual(['first starts', 'first SIGTERM', 'first ends', 'second'])
  })

  test('Ctrl-C reaches each process once, and the lock is kept until they end', async () => {
    const terminal = startAtTerminal([], `${writeWorker('first', SLOW)}; true`)
    await logged('first starts')
    terminal.stdin?.write('\u{3}')
    await exitOf(terminal)
    expect(log()).toEqual(['first starts', 'first SIGINT', 'first ends'])
    expect(await holders()).toBe(0)
  })
})
