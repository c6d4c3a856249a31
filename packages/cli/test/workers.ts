/** Worker processes for tests of `holdfast run`. They log to a file that the test reads. */

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../../../test/support/wait.js'
import { Bench, type Running } from './command.js'

export const isLinux = process.platform === 'linux'

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
export const SLOW = `${WORKER}
  onSignal = (signal) => {
    log(signal)
    const until = performance.now() + 1_500
    waitFor(() => performance.now() > until || readFileSync('log', 'utf8').includes('second'), end)
  }
  log('starts')`

/** Goes on after signals. */
export const STUBBORN = `${WORKER}\nlog('starts')`

/** Ends on SIGTERM only, as programs do that a shell has started in the background. */
export const POLITE = `${WORKER}
  onSignal = (signal) => { log(signal); if (signal === 'SIGTERM') process.exit(0) }
  log('starts')`

/** A bench whose folder has the scripts of the workers and their log. */
export class WorkerBench extends Bench {
  /** Writes a script, and returns the shell words that start it. */
  writeWorker(name: string, script: string): string {
    writeFileSync(join(this.folder, `${name}.cjs`), script)
    return `"${process.execPath}" ${name}.cjs ${name}`
  }

  log(): readonly string[] {
    const path = join(this.folder, 'log')
    return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : []
  }

  async logged(line: string): Promise<void> {
    await until(`the log has "${line}"`, () => this.log().includes(line), { state: () => this.log() })
  }

  /** Workers end when this file is there. */
  endWorkers(): void {
    writeFileSync(join(this.folder, 'go'), '')
  }

  /** Runs a shell script in the folder of the test, under the lock `a`. */
  startShell(options: readonly string[], script: string): Running {
    const inFolder = `cd '${this.folder}' || exit 9; ${script}`
    return this.start(['run', 'a', ...options, '--', 'sh', '-c', inFolder])
  }

  async holders(): Promise<number> {
    return (await this.inspect('a')).holders.length
  }

  override async clear(): Promise<void> {
    // A test that failed can leave workers too.
    this.endWorkers()
    await super.clear()
  }
}

/** As `ps` prints it: `T` is stopped, `Z` is a zombie. Empty if there is no such process. */
export function stateOf(pid: number): string {
  return spawnSync('ps', ['-p', String(pid), '-o', 'stat='], { encoding: 'utf8' }).stdout.trim()
}

export function isAlive(pid: number): boolean {
  return !['', 'Z'].includes(stateOf(pid).slice(0, 1))
}
