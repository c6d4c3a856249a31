/**
 * How old claims are, for people who look. The server counts in seconds; between two of its ticks the clock of whoever
 * looks goes on. Nothing is ever decided by it.
 */

import { monotonicMs } from '../shared/clock.js'
import type { Entry } from './stored.js'

const SEEN_MAX = 10_000

export class Ages {
  /** When a claim that was looked at before must have joined, by this machine's clock. */
  readonly #joinedMs = new Map<string, number>()

  /** The age of an entry that the server has counted `ticks` for. */
  of({ id }: Entry, ticks: number): number {
    const now = monotonicMs()
    const counted = now - ticks * 1_000
    const joined = Math.min(counted, this.#joinedMs.get(id) ?? counted)
    if (this.#joinedMs.size >= SEEN_MAX) this.#joinedMs.clear()
    this.#joinedMs.set(id, joined)
    return now - joined
  }
}
