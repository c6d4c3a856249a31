import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { execPath } from 'node:process'
import { fileURLToPath } from 'node:url'

interface Instance {
  readonly port: number
  child: ChildProcess
}

/** Several instances of the service over one store, each a process of its own that can be killed and started again. */
export class ServiceInstances {
  readonly #store: string
  readonly #instances: Instance[] = []
  #next = 0

  private constructor(store: string) {
    this.#store = store
  }

  static async start(store: string, count: number): Promise<ServiceInstances> {
    const instances = new ServiceInstances(store)
    for (let each = 0; each < count; each += 1) {
      const { child, port } = await launch(store, 0)
      instances.#instances.push({ child, port })
    }
    return instances
  }

  get size(): number {
    return this.#instances.length
  }

  /** A URL with all of them, each time with another one first. */
  url(): string {
    const ports = this.#instances.map(({ port }) => port)
    const first = this.#next % ports.length
    this.#next += 1
    const hosts = [...ports.slice(first), ...ports.slice(0, first)].map((port) => `127.0.0.1:${port}`)
    return `http://${hosts.join(',')}`
  }

  /** Resolves when it is gone. */
  async kill(index: number): Promise<void> {
    const { child } = this.#instances[index] as Instance
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  async restart(index: number): Promise<void> {
    const instance = this.#instances[index] as Instance
    instance.child = (await launch(this.#store, instance.port)).child
  }

  async close(): Promise<void> {
    await Promise.all(
      this.#instances.map(async ({ child }, index) => {
        if (child.exitCode === null && child.signalCode === null) await this.kill(index)
      }),
    )
  }
}

async function launch(store: string, port: number): Promise<{ child: ChildProcess; port: number }> {
  const path = fileURLToPath(new URL('./service-child.mjs', import.meta.url))
  const child = spawn(execPath, [path, store, String(port)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const printed = await Promise.race([once(child.stdout, 'data'), once(child, 'exit').then(() => null)])
  if (printed === null) throw new Error('The service ended before it served; is it built?')
  return { child, port: Number(new URL(String(printed[0]).trim()).port) }
}
