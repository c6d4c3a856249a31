/** The processes of an isolation run: the service, and a tenant that floods it. */

import { type ChildProcess, spawn } from 'node:child_process'
import { constants, setPriority } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { within } from '../../../../../test/support/wait.js'

export interface Memory {
  readonly heapUsed: number
  readonly external: number
  readonly rss: number
  readonly cpuMs: number
}

export interface Flooded {
  readonly answers: Readonly<Record<string, number>>
  readonly largest: number
  readonly open: number
}

/** A process that answers each line it is sent with a line of JSON. */
export class LineProcess {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>

  constructor(script: string, args: readonly string[], flags: readonly string[] = []) {
    const path = join(import.meta.dirname, script)
    this.#child = spawn(process.execPath, [...flags, path, ...args], { stdio: ['pipe', 'pipe', 'inherit'] })
    if (this.#child.stdout === null) throw new Error('The process has no output.')
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]()
  }

  async read<T>(): Promise<T> {
    const { value } = await within('a line of the process', this.#lines.next(), { limitMs: 120_000 })
    return JSON.parse(String(value)) as T
  }

  async tell<T>(word: string): Promise<T> {
    this.#child.stdin?.write(`${word}\n`)
    return await this.read<T>()
  }

  /** What this machine needs for the process itself is not what the service does: others go first. */
  yieldToOthers(): void {
    if (this.#child.pid !== undefined) setPriority(this.#child.pid, constants.priority.PRIORITY_LOW)
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}
