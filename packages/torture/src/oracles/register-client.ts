import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { RegisterAnswer, RegisterRequest } from './register.js'

type Unnumbered<R> = R extends { readonly id: number } ? Omit<R, 'id'> : never

/** One connection to the register, for all callers of a process. */
export class RegisterClient {
  readonly #socket: Socket
  readonly #waiting = new Map<number, (answer: RegisterAnswer) => void>()
  #last = 0

  constructor(path: string) {
    this.#socket = connect(path)
    const lines = createInterface({ input: this.#socket })
    lines.on('line', (line) => {
      const answer = JSON.parse(line) as RegisterAnswer
      this.#waiting.get(answer.id)?.(answer)
      this.#waiting.delete(answer.id)
    })
    // The register ends with the run, and so does whoever waits for it.
    lines.on('error', () => this.close())
    this.#socket.on('error', () => this.close())
  }

  ask(request: Unnumbered<RegisterRequest>): Promise<RegisterAnswer> {
    this.#last += 1
    const id = this.#last
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve)
      this.#socket.write(`${JSON.stringify({ ...request, id })}\n`)
    })
  }

  close(): void {
    this.#socket.destroy()
  }
}
