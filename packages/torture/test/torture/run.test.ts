import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import type { TortureOutcome } from '../../src/torture/outcome.js'

const SCRIPT = fileURLToPath(new URL('./one-run.mjs', import.meta.url))

let folder: string
const started: ChildProcess[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-run-test-'))
})
afterEach(async () => {
  for (const child of started.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 })
})

/** A run in a process of its own, with a temporary folder of its own, so that all that it leaves can be counted. */
function start(options: object): ChildProcess {
  const child = fork(SCRIPT, [JSON.stringify(options)], {
    execArgv: [],
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  started.push(child)
  return child
}

async function outcomeOf(options: object): Promise<TortureOutcome> {
  const child = start(options)
  return await new Promise((resolve, reject) => {
    child.on('message', (message: { outcome?: TortureOutcome; error?: string }) => {
      if (message.outcome !== undefined) resolve(message.outcome)
      if (message.error !== undefined) reject(new Error(message.error))
    })
    // The exit of a process may be noticed before its last words are read; its channel ends behind them.
    child.once('disconnect', () => reject(new Error('The run ended without an outcome.')))
  })
}

/** Every process of the run has the folder in its arguments: the workers, the register and the guard. */
function processesOfRun(): string[] {
  return readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return false
    try {
      return readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(folder)
    } catch {
      return false
    }
  })
}

/** Waits for the workers to be in the middle of their work, one of them stopped. */
async function inTheMiddle(child: ChildProcess): Promise<void> {
  await new Promise<void>((resolve) => {
    child.on('message', ({ progress }: { progress?: { active: string[]; acquired: number } }) => {
      if (
        progress !== undefined &&
        progress.acquired > 0 &&
        progress.active.some((each) => each.startsWith('pause'))
      )
        resolve()
    })
  })
  expect(processesOfRun().length).toBeGreaterThan(2)
}

describe('a torture run on sqlite', () => {
  test('passes under kills, pauses and stalls, has every fault, and leaves nothing behind', async () => {
    const outcome = await outcomeOf({ seconds: 8, workers: 3, seed: 5 })
    expect(outcome.verdict.violations).toEqual([])
    expect(outcome.verdict.valid).toBe(true)
    expect(outcome.faults.map(({ name }) => name)).toEqual(expect.arrayContaining(['kill', 'pause', 'stall']))
    for (const { acquired } of outcome.names) expect(acquired).toBeGreaterThan(0)
    expect(outcome.plainSet.added).toBeGreaterThan(0)
    expect(outcome.register.accepted).toBeGreaterThan(0)
    expect(outcome.queue.judged).toBeGreaterThan(0)
    expect(outcome.health.length).toBeGreaterThan(0)
    await until('its processes have ended', () => processesOfRun().length === 0)
    expect(readdirSync(folder)).toEqual([])
  })

  test('catches a lock that is none, by the history, by the tripwire and by the lost updates', async () => {
    const failures = join(folder, 'failures')
    const outcome = await outcomeOf({
      seconds: 4,
      workers: 3,
      seed: 5,
      faults: [],
      broken: 'no-lock',
      failures,
    })
    const resourcesOf = (kind: string): string[] =>
      outcome.verdict.violations
        .filter((each) => each.kind === kind && each.admitted === undefined)
        .map((each) => each.resource)
    expect(outcome.verdict.valid).toBe(false)
    expect(resourcesOf('overlap').length).toBeGreaterThan(0)
    expect(resourcesOf('tripwire').length).toBeGreaterThan(0)
    expect(resourcesOf('too-many-permits').length).toBeGreaterThan(0)
    expect(resourcesOf('reader-beside-writer').length).toBeGreaterThan(0)
    // In the plain files, and in the sets of the register, whose fences are all the same.
    expect(resourcesOf('lost-update').some((name) => name.startsWith('set:'))).toBe(true)
    expect(resourcesOf('lost-update').some((name) => name.startsWith('fenced-set:'))).toBe(true)
    expect(existsSync(join(failures, 'report.html'))).toBe(true)
    expect(existsSync(join(failures, 'history', 'w1.jsonl'))).toBe(true)
  })

  test('leaves nothing behind when it is interrupted in the middle', async () => {
    const child = start({ seconds: 60, workers: 3, seed: 5, faults: ['pause'] })
    await inTheMiddle(child)
    child.kill('SIGINT')
    await once(child, 'exit')
    expect(processesOfRun()).toEqual([])
    expect(readdirSync(folder)).toEqual([])
  })

  test('leaves no process and no folder of its own behind when it is killed', async () => {
    const child = start({ seconds: 60, workers: 3, seed: 5, faults: ['pause'] })
    await inTheMiddle(child)
    child.kill('SIGKILL')
    await once(child, 'exit')
    await until('its processes have ended', () => processesOfRun().length === 0)
    await until(
      'its folder is gone',
      () => !readdirSync(folder).some((name) => name.startsWith('holdfast-torture-')),
    )
  })
})
