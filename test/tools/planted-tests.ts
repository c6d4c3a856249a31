import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { within } from '../support/wait.js'

const repository = resolve(import.meta.dirname, '../..')
const reporter = pathToFileURL(join(repository, 'tools/test/vitest-reporter.mjs')).href

export interface CommandResult {
  readonly code: number | null
  readonly output: string
  readonly lastLine: string
}

export interface StartedCommand {
  readonly child: ChildProcess
  readonly ended: Promise<CommandResult>
  /** What it has printed so far. */
  printed(): string
}

/** A folder with test files, on which the commands of `tools/test` run. */
export class PlantedTests {
  readonly root: string

  constructor(files: Readonly<Record<string, string>>, config = '') {
    // The folder is within the repository, so that the files find `vitest`.
    const cache = join(repository, 'node_modules/.cache')
    mkdirSync(cache, { recursive: true })
    this.root = mkdtempSync(join(cache, 'holdfast-planted-tests-'))
    const head = `import { ProgressReporter } from '${reporter}'\n`
    const body = `include: ['*.test.mjs'], testTimeout: 60_000, reporters: [new ProgressReporter({ stillRunningMs: 300 })], ${config}`
    writeFileSync(join(this.root, 'vitest.config.mjs'), `${head}export default { test: { ${body} } }\n`)
    const imports = "import { beforeAll, describe, expect, it } from 'vitest'\n"
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.root, name)), { recursive: true })
      writeFileSync(join(this.root, name), name.endsWith('.test.mjs') ? imports + text : text)
    }
  }

  /** Starts a command of `tools/test` on the folder. */
  start(script: string, args: readonly string[]): StartedCommand {
    const outer = Object.entries(process.env).filter(([name]) => !name.startsWith('VITEST'))
    const command = [join(repository, 'tools/test', script), ...args, '--root', this.root]
    const child = spawn(process.execPath, command, { env: Object.fromEntries(outer) })
    let output = ''
    child.stdout.on('data', (text) => (output += text))
    child.stderr.on('data', (text) => (output += text))
    const ended = new Promise<CommandResult>((resolve) => {
      child.once('close', (code) => {
        const plain = stripVTControlCharacters(output)
        resolve({ code, output: plain, lastLine: plain.trimEnd().split('\n').at(-1) ?? '' })
      })
    })
    return { child, ended, printed: () => stripVTControlCharacters(output) }
  }

  async run(script: string, args: readonly string[]): Promise<CommandResult> {
    const started = this.start(script, args)
    return await within(`${script} ends`, started.ended, {
      limitMs: 240_000,
      state: () => started.printed(),
    })
  }

  remove(): void {
    rmSync(this.root, { recursive: true, force: true })
  }
}

/** Whether a process runs. One that has ended, and that its parent has not waited for yet, does not run. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch {
    // ESRCH: there is no such process.
    return false
  }
  const stat = `/proc/${pid}/stat`
  return !existsSync(stat) || !/\) Z /.test(readFileSync(stat, 'utf8'))
}
