/** Time that passes when a test says so. */

import type { WatchClock } from '../../src/watch/clock.js'

export class ManualClock implements WatchClock {
  now = 0
  readonly #waiting = new Set<{ readonly at: number; readonly run: () => void }>()

  monotonicMs(): number {
    return this.now
  }

  wallMs(): number {
    return 1_700_000_000_000 + this.now
  }

  after(ms: number, run: () => void): () => void {
    const entry = { at: this.now + ms, run }
    this.#waiting.add(entry)
    return () => void this.#waiting.delete(entry)
  }

  async advance(ms: number): Promise<void> {
    const end = this.now + ms
    for (;;) {
      const [next] = [...this.#waiting].filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at)
      if (next === undefined) break
      this.now = Math.max(this.now, next.at)
      this.#waiting.delete(next)
      next.run()
      await settled()
    }
    this.now = end
    await settled()
  }
}

/** Everything that needs no time has happened. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}
