import type { ClaimAnswer } from '../core/records.js'

export type Settled = Extract<ClaimAnswer, { readonly kind: 'settled' }>

interface Kept {
  readonly settled: Settled
  readonly fingerprint: string | null
  readonly untilMs: number
}

/** Outcomes that cannot change any more, so that a repeated request need not ask the store. The oldest one goes first. */
export class SettledCache {
  readonly #kept = new Map<string, Kept>()
  readonly #max: number
  readonly #ttlMs: number
  readonly #nowMs: () => number

  constructor(max: number, ttlMs: number, nowMs: () => number) {
    this.#max = max
    this.#ttlMs = ttlMs
    this.#nowMs = nowMs
  }

  /** null: not here, or perhaps of another request, which only the store can tell. */
  get(key: string, fingerprint: string | null): Settled | null {
    const kept = this.#kept.get(key)
    if (kept === undefined) return null
    if (kept.untilMs <= this.#nowMs()) {
      this.#kept.delete(key)
      return null
    }
    return kept.fingerprint === fingerprint ? kept.settled : null
  }

  put(key: string, fingerprint: string | null, settled: Settled, retentionMs: number | null): void {
    this.#kept.delete(key)
    const ttlMs = Math.min(this.#ttlMs, retentionMs ?? Number.POSITIVE_INFINITY)
    this.#kept.set(key, { settled, fingerprint, untilMs: this.#nowMs() + ttlMs })
    if (this.#kept.size <= this.#max) return
    for (const oldest of this.#kept.keys()) {
      this.#kept.delete(oldest)
      return
    }
  }

  drop(key: string): void {
    this.#kept.delete(key)
  }
}
