// @module-tag exclusion
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../../test/support/wait.js'
import { MAIN, type Running, requireBuild } from './command.js'
import { isAlive, isLinux, SLOW, STUBBORN, stateOf, WorkerBench } from './workers.js'

let bench: WorkerBench
beforeAll(requireBuild)
beforeEach(() => {
  bench = new WorkerBench()
})
afterEach(() => bench.clear())

/** Runs a shell script under the lock `b`, inside a run under the lock `a`. */
function startNested(options: readonly string[], script: string): Running {
  writeFileSync(join(bench.folder, 'inner.sh'), script)
  return bench.startShell(options, `"${process.execPath}" "${MAIN}" run b --grace 10m -- sh inner.sh; true`)
}

/** The output of a process stays open while a worker has it, so `ended` comes too late here. */
async function exitOf(running: Running): Promise<void> {
  if (!running.hasEnded) await once(running.process, 'exit')
}

async function workerPid(name: string): Promise<number> {
  const prefix = `${name} pid `
  const line = await until('the worker has started', () =>
    bench.log().find((text) => text.startsWith(prefix)),
  )
  return Number(line.slice(prefix.length))
}

const WITH_PID = `${STUBBORN}\nlog('pid ' + process.pid)`

describe.runIf(isLinux)('holdfast run inside holdfast run (does not apply outside Linux)', () => {
  test('the outer run kills the command of the inner one after its own --grace', async () => {
    const outer = startNested(['--grace', '500ms'], `${bench.writeWorker('inner', WITH_PID)}; true`)
    const pid = await workerPid('inner')
    outer.process.kill('SIGTERM')
    await exitOf(outer)
    expect(isAlive(pid)).toBe(false)
    expect(bench.log()).not.toContain('inner ends')
    expect(await bench.holders()).toBe(0)
  })

  test('the outer run kills the command of an inner run at any depth', async () => {
    const worker = bench.writeWorker('inner', WITH_PID)
    const outer = startNested(
      ['--grace', '500ms'],
      `"${process.execPath}" "${MAIN}" run c --grace 10m -- sh -c '${worker}; true'`,
    )
    const pid = await workerPid('inner')
    outer.process.kill('SIGTERM')
    await exitOf(outer)
    expect(isAlive(pid)).toBe(false)
  })

  test('an internal error of the outer run kills the command of the inner one', async () => {
    const crash = join(bench.folder, 'crash')
    writeFileSync(
      join(bench.folder, 'crash.cjs'),
      `const [, , , lock] = process.argv
       const look = () => { if (require('node:fs').existsSync('${crash}')) throw new Error('planted') }
       if (lock === 'a') setInterval(look, 10).unref()`,
    )
    const worker = bench.writeWorker('inner', WITH_PID)
    const command = `cd '${bench.folder}' && "${process.execPath}" "${MAIN}" run b -- ${worker}; true`
    const outer = bench.start(['run', 'a', '--', 'sh', '-c', command], {
      NODE_OPTIONS: `--require ${join(bench.folder, 'crash.cjs')}`,
    })
    const pid = await workerPid('inner')
    writeFileSync(crash, '')
    await exitOf(outer)
    expect(outer.process.exitCode).toBe(70)
    await until('the worker has ended', () => !isAlive(pid))
    expect(bench.log()).not.toContain('inner ends')
  })

  test('SIGTERM reaches the command of the inner run once', async () => {
    const outer = startNested([], `exec ${bench.writeWorker('inner', SLOW)}`)
    await bench.logged('inner starts')
    outer.process.kill('SIGTERM')
    await outer.ended
    expect(bench.log()).toEqual(['inner starts', 'inner SIGTERM', 'inner ends'])
    expect(await bench.holders()).toBe(0)
  })

  test('SIGTSTP stops the command of the inner run, and SIGCONT continues it', async () => {
    const outer = startNested([], `exec ${bench.writeWorker('inner', WITH_PID)}`)
    const pid = await workerPid('inner')
    outer.process.kill('SIGTSTP')
    await until('the worker has stopped', () => stateOf(pid).startsWith('T'))
    outer.process.kill('SIGCONT')
    await until('the worker goes on', () => !stateOf(pid).startsWith('T'))
  })

  test('a process that the command of an inner run has put in a session of its own does not count', async () => {
    const daemon = `setsid ${bench.writeWorker('daemon', WITH_PID)} > output 2>&1`
    const outer = startNested([], `${daemon} & while ! grep -q pid log; do sleep 0.05; done`)
    await exitOf(outer)
    const pid = await workerPid('daemon')
    expect(isAlive(pid)).toBe(true)
    expect(await bench.holders()).toBe(0)
    bench.endWorkers()
    await until('the daemon has ended', () => !isAlive(pid))
  })
})
