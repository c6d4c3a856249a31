/** What a run has seen: requests by status, contradictions by kind, and the largest answer of each route. */

export interface Contradiction {
  /** The word before the colon: what the answer contradicts. */
  readonly kind: string
  readonly text: string
  /** The last requests for the same name, oldest first. */
  readonly trail: readonly string[]
}

const CONTRADICTIONS_MAX = 200

export class Report {
  readonly byStatus = new Map<number, number>()
  readonly byCode = new Map<string, number>()
  readonly largest = new Map<string, number>()
  readonly contradictions: Contradiction[] = []
  requests = 0
  hangUps = 0
  /** Answers 504 to requests with short leases that took longer than such a lease allows. */
  explained504 = 0
  events = 0

  add(kind: string, text: string, trail: readonly string[]): void {
    if (this.contradictions.length < CONTRADICTIONS_MAX) this.contradictions.push({ kind, text, trail })
  }

  answered(status: number, code: string, route: string, bytes: number): void {
    this.requests += 1
    this.byStatus.set(status, (this.byStatus.get(status) ?? 0) + 1)
    if (code !== '') this.byCode.set(code, (this.byCode.get(code) ?? 0) + 1)
    this.largest.set(route, Math.max(this.largest.get(route) ?? 0, bytes))
  }

  get kinds(): ReadonlySet<string> {
    return new Set(this.contradictions.map(({ kind }) => kind))
  }

  get serverErrors(): number {
    return [...this.byStatus].reduce((sum, [status, count]) => sum + (status >= 500 ? count : 0), 0)
  }

  describe(): string {
    const text = <K>(counts: ReadonlyMap<K, number>): string =>
      [...counts]
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, count]) => `${String(key)}: ${count}`)
        .join(', ')
    return [
      `${this.requests} requests, ${this.hangUps} hang-ups, ${this.events} events`,
      `status ${text(this.byStatus)} (504 explained: ${this.explained504})`,
      `codes ${text(this.byCode)}`,
      `largest answers in bytes ${text(this.largest)}`,
      `contradictions ${this.contradictions.length}${this.contradictions.length > 0 ? ` (${[...this.kinds].join(', ')})` : ''}`,
    ].join('\n  ')
  }
}
