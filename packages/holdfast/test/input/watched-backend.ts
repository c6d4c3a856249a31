import type { Guarantees, Sink } from '../../src/backend.js'
import { memoryBackend } from '../../src/memory.js'
import { CountingBackend } from '../../src/testing.js'

/** A store of chosen guarantees that counts whatever reaches it, its opening too, so that a test can say: nothing did. */
export class WatchedBackend extends CountingBackend {
  readonly #differences: Partial<Guarantees>
  #openings = 0

  constructor(differences: Partial<Guarantees> = {}) {
    super(memoryBackend())
    this.#differences = differences
  }

  get allCalls(): number {
    return this.#openings + this.calls()
  }

  override get guarantees(): Guarantees {
    return { ...super.guarantees, ...this.#differences }
  }

  override async open(sink: Sink): Promise<void> {
    this.#openings += 1
    await super.open(sink)
  }
}
