import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface, type Interface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const JARS = [
  'curator-client',
  'curator-framework',
  'curator-recipes',
  'zookeeper',
  'guava',
  'slf4j-api',
  'slf4j-nop',
].map((name) => `/usr/share/java/${name}.jar`)
const SOURCE = fileURLToPath(new URL('./CuratorSide.java', import.meta.url))

/** A process of Java with Apache Curator in it, which says what it does line by line. */
export class CuratorSide {
  readonly #child: ChildProcess
  readonly #lines: string[] = []
  readonly #reader: Interface
  #wake: (() => void) | null = null
  #isOver = false

  constructor(args: readonly string[]) {
    const options = ['-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', JARS.join(':')]
    const child = spawn('java', [...options, SOURCE, ...args], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#child = child
    this.#reader = createInterface({ input: child.stdout })
    this.#reader.on('line', (line) => {
      this.#lines.push(line)
      this.#wake?.()
    })
    // Unlike `exit`, this comes behind the last line.
    child.once('close', () => {
      this.#isOver = true
      this.#wake?.()
    })
  }

  /** Waits until it says this. */
  async says(line: string): Promise<void> {
    while (!this.#lines.includes(line)) {
      if (this.#isOver) throw new Error(`Curator ended without saying ${line}: ${this.#lines.join(', ')}`)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  goOn(): void {
    this.#child.stdin?.write('\n')
  }

  async end(): Promise<void> {
    if (this.#isOver) return
    const closed = once(this.#child, 'close')
    this.#child.kill('SIGKILL')
    await closed
  }
}
