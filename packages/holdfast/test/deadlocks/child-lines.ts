/** Child processes that talk in lines of JSON. */

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { execPath } from 'node:process'
import { fileURLToPath } from 'node:url'

export interface Told {
  readonly kind: string
  readonly pid: number
  readonly name?: string
  readonly code?: string
  readonly message?: string
  readonly cycle?: readonly string[] | null
}

export class LineChild {
  readonly #process: ChildProcessWithoutNullStreams
  readonly #told: Told[] = []
  readonly ended: Promise<unknown>
  #rest = ''
  #errors = ''
  #hear: (() => void) | null = null
  #isOver = false

  constructor(script: string, args: readonly string[]) {
    const path = fileURLToPath(new URL(script, import.meta.url))
    this.#process = spawn(execPath, [path, ...args])
    this.#process.stdout.setEncoding('utf8').on('data', (text: string) => this.#heard(text))
    this.#process.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#errors += text
    })
    this.ended = once(this.#process, 'close').then(() => {
      this.#isOver = true
      this.#hear?.()
    })
  }

  get pid(): number {
    return this.#process.pid as number
  }

  get errors(): string {
    return this.#errors
  }

  /** Lets it take its next name. */
  go(): void {
    this.#process.stdin.write('\n')
  }

  /** What it says next. */
  async next(): Promise<Told> {
    while (this.#told.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#hear = resolve
      })
    }
    const told = this.#told.shift()
    if (told === undefined) throw new Error(`It ended without a word. ${this.#errors}`)
    return told
  }

  async kinds(...kinds: readonly string[]): Promise<Told> {
    let told: Told | null = null
    for (const kind of kinds) {
      told = await this.next()
      if (told.kind !== kind) throw new Error(`Not "${kind}", but ${JSON.stringify(told)}`)
    }
    return told as Told
  }

  async stop(): Promise<void> {
    if (!this.#isOver) this.#process.kill('SIGKILL')
    await this.ended
  }

  #heard(text: string): void {
    const lines = `${this.#rest}${text}`.split('\n')
    this.#rest = lines.pop() ?? ''
    this.#told.push(...lines.map((line) => JSON.parse(line) as Told))
    this.#hear?.()
  }
}
