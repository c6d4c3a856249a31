/** Runs the built command as a user does: as a process, against a store of the test's own. */

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ResourceView } from 'holdfast'
import { until } from '../../../test/support/wait.js'

export const MAIN = join(import.meta.dirname, '..', 'dist', 'main.js')
const SOURCE = join(import.meta.dirname, '..', 'src')

/** An old build would be tested in place of the source, and nobody would notice. */
export function requireBuild(): void {
  if (!existsSync(MAIN)) throw new Error('The command is not built. Run `npm run build` first.')
  const builtAt = statSync(MAIN).mtimeMs
  for (const entry of readdirSync(SOURCE, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile() && statSync(path).mtimeMs > builtAt) {
      throw new Error(`The built command is older than ${entry.name}. Run \`npm run build\` first.`)
    }
  }
}

export interface Ended {
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export class Running {
  readonly process: ChildProcess
  readonly ended: Promise<Ended>
  stdout = ''
  stderr = ''

  constructor(args: readonly string[], env: NodeJS.ProcessEnv) {
    // In a session of its own it has no controlling terminal, wherever the tests are run from.
    this.process = spawn(process.execPath, [MAIN, ...args], {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env,
    })
    this.process.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
    })
    this.process.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
    this.ended = new Promise((resolve, reject) => {
      this.process.once('error', reject)
      this.process.once('close', (exitCode, signal) => {
        resolve({ exitCode, signal, stdout: this.stdout, stderr: this.stderr })
      })
    })
  }

  /** Waits for a text on standard output. */
  async prints(text: string): Promise<void> {
    await until(`${JSON.stringify(text)} is printed`, () => this.stdout.includes(text) || this.hasEnded)
    if (!this.stdout.includes(text)) {
      throw new Error(`It ended without printing ${JSON.stringify(text)}: ${this.stdout}${this.stderr}`)
    }
  }

  get hasEnded(): boolean {
    return this.process.exitCode !== null || this.process.signalCode !== null
  }
}

/** A folder with a store in it, and the command that uses it. */
export class Bench {
  readonly folder = mkdtempSync(join(tmpdir(), 'holdfast-cli-test-'))
  readonly url = `sqlite:${join(this.folder, 'locks.db')}`
  readonly #started: Running[] = []

  start(args: readonly string[], env: NodeJS.ProcessEnv = {}): Running {
    const { HOLDFAST_DEBUG: _debug, HOLDFAST_NAME: _name, HOLDFAST_FENCE: _fence, ...own } = process.env
    const running = new Running(args, { ...own, HOLDFAST_URL: this.url, ...env })
    this.#started.push(running)
    return running
  }

  async holdfast(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
    return await this.start(args, env).ended
  }

  /** Runs a piece of JavaScript under a lock. */
  startUnder(lock: readonly string[], script: string, ...args: readonly string[]): Running {
    return this.start(['run', ...lock, '--', process.execPath, '-e', script, ...args])
  }

  /** Holds a lock until the test is over. */
  async hold(...lock: readonly string[]): Promise<Running> {
    const holder = this.startUnder(lock, `console.log('held'); setInterval(() => {}, 1_000)`)
    await holder.prints('held')
    return holder
  }

  async inspect(name: string): Promise<ResourceView> {
    const { stdout } = await this.holdfast(['show', name, '--json'])
    return JSON.parse(stdout) as ResourceView
  }

  async clear(): Promise<void> {
    for (const running of this.#started) if (!running.hasEnded) running.process.kill('SIGTERM')
    await Promise.all(this.#started.map((running) => endOf(running)))
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  }
}

async function endOf(running: Running): Promise<void> {
  const timer = setTimeout(() => running.process.kill('SIGKILL'), 10_000)
  await running.ended
  clearTimeout(timer)
}
