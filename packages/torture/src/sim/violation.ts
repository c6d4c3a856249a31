/** What the simulator looks for. Each kind names the promise that was broken. */
export type ViolationKind =
  | 'overlap'
  | 'asserted-overlap'
  | 'granted-late'
  | 'abort-late'
  | 'fence-order'
  | 'fence-reused'
  | 'refused-while-held'
  | 'timeout-late'
  | 'stuck'
  | 'orphan'
  | 'timer-left'
  | 'unexplained-loss'
  | 'unnoticed-loss'
  | 'late-wake-up'
  | 'renewed-another'
  | 'renewal-storm'
  | 'unexpected-error'
  | 'unfair'
  | 'wrong-context'
  | 'event-missing'
  | 'not-kept-alive'
  | 'kept-alive'
  | 'growth'
  | 'loss-ignored'
  | 'error-replaced'
  | 'max-hold'
  | 'leader-order'

export class Violation extends Error {
  readonly kind: ViolationKind

  constructor(kind: ViolationKind, detail: string) {
    super(`${kind}: ${detail}`)
    this.name = 'Violation'
    this.kind = kind
  }
}
