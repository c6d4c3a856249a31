/** The built command as a process, as users run the service, with all that it prints. */

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const MAIN = join(import.meta.dirname, '../../../cli/dist/main.js')

/** Nothing takes this long that works, however busy the machine is. */
const DEADLINE_MS = 120_000

export class CommandRun {
  readonly #child: ChildProcess
  readonly #ended: Promise<number | null>
  stdout = ''
  stderr = ''

  constructor(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
    if (!existsSync(MAIN)) throw new Error('The command is not built. Run `npm run build` first.')
    this.#child = spawn(process.execPath, [MAIN, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
    })
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
    })
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
    this.#ended = new Promise((resolve) => {
      this.#child.once('close', (code) => resolve(code))
    })
  }

  get output(): string {
    return `${this.stdout}${this.stderr}`
  }

  /** Waits until it has ended by itself, and says with which code. */
  async end(): Promise<number | null> {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), DEADLINE_MS)
    const code = await this.#ended
    clearTimeout(timer)
    return code
  }

  async stop(): Promise<number | null> {
    this.#child.kill('SIGTERM')
    return await this.end()
  }

  /** Waits for something in what it prints to standard output. */
  async prints(pattern: RegExp): Promise<string> {
    const end = performance.now() + DEADLINE_MS
    for (;;) {
      const [found] = pattern.exec(this.stdout) ?? []
      if (found !== undefined) return found
      if (this.#child.exitCode !== null || performance.now() > end) {
        throw new Error(`It did not print ${pattern}: ${this.output}`)
      }
      await sleep(50)
    }
  }
}
