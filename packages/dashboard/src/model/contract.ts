/** What the service says, as the page reads it. Fences are decimal texts, because they exceed what a number can hold. */

export type Kind = 'mutex' | 'semaphore' | 'read-write'

export interface Shape {
  readonly kind: Kind
  readonly limit: number
}

export interface Owner {
  readonly host: string
  readonly pid: number
  readonly client: string
}

export interface ClaimView {
  readonly ref: string
  readonly owner: Owner
  readonly note: string | null
  readonly weight: number
  readonly fence: string | null
  readonly ageMs: number
  readonly remainingMs: number | null
}

export interface ResourceView {
  readonly name: string
  readonly shape: Shape | null
  /** The first ones, as many as the service shows. */
  readonly holders: readonly ClaimView[]
  readonly waiters: readonly ClaimView[]
  /** How many there are; left out: those above are all. */
  readonly holdersTotal?: number
  readonly waitersTotal?: number
}

export interface DeadlockStep {
  readonly waiter: ClaimView
  readonly waitsFor: string
  readonly heldBy: ClaimView
}

export interface Deadlock {
  readonly certain: boolean
  readonly cycle: readonly DeadlockStep[]
}

export type ActivityKind = 'acquired' | 'released' | 'expired' | 'broken' | 'waiting' | 'left'

export interface Activity {
  readonly seq: number
  readonly at: string
  readonly kind: ActivityKind
  readonly name: string
  readonly ref: string
  readonly owner: Owner
  readonly note: string | null
  readonly fence: string | null
  readonly waitedMs: number | null
  readonly heldMs: number | null
  readonly reason: string | null
}

export interface Guarantees {
  readonly keptBy: 'lease' | 'session' | 'connection'
  readonly safety: 'consensus' | 'single-node' | 'best-effort'
  readonly fencing: 'strict' | 'best-effort' | 'none'
  readonly waiting: 'push' | 'block' | 'poll'
  readonly fair: boolean
  readonly weights: 'any' | 'one' | 'none'
  readonly shows: 'claims' | 'connections'
}

export interface Hello {
  readonly instance: string
  readonly version: string
  readonly store: string
  readonly guarantees: Guarantees
  readonly now: string
}

/** What happened since the last one. */
export interface Stats {
  readonly at: string
  readonly locks: number
  readonly holders: number
  readonly waiters: number
  readonly acquired: number
  readonly released: number
  readonly lost: number
  readonly broken: number
  /** Whether the store did not answer the last time, so that what is shown is old. */
  readonly stale?: boolean
  /** Whether there are more names than the service looks at. */
  readonly truncated?: boolean
}
