/** Says how far a run is, on standard error, so that standard output holds nothing but the table. */

/** On a terminal one line is written over; elsewhere a line now and then is enough. */
const LOG_EVERY_MS = 5_000

export class Progress {
  readonly #out: NodeJS.WriteStream
  #heading = ''
  #saidAt = 0

  constructor(out: NodeJS.WriteStream = process.stderr) {
    this.#out = out
  }

  start(heading: string): void {
    this.#heading = heading
    if (this.#out.isTTY) return
    this.#saidAt = performance.now()
    this.#out.write(`${heading}\n`)
  }

  say(text: string): void {
    const now = performance.now()
    if (!this.#out.isTTY) {
      if (now - this.#saidAt < LOG_EVERY_MS) return
      this.#saidAt = now
      this.#out.write(`${this.#heading}: ${text}\n`)
      return
    }
    // Writing on every call would cost more than some of the rounds that are measured.
    if (now - this.#saidAt < 100) return
    this.#saidAt = now
    this.#out.write(`\r\u001b[K${this.#heading}: ${text}`)
  }

  done(): void {
    if (this.#out.isTTY) this.#out.write('\r\u001b[K')
  }
}
