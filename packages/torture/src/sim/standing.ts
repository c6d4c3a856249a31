/** What the checks read of a hold's claim, beyond what callers see. None of it changes anything. */
export interface SeenStanding {
  readonly claim: { readonly id: string; readonly ttlMs: number }
  readonly fence: bigint | null
  readonly lease: { readonly sentAt: number; readonly leaseMs: number }
  /** When the store's grant reached the client, on the monotonic clock of the process. */
  readonly since: number
  /** false: a fixed lease, which nobody renews. */
  readonly renews: boolean
  /** When `maxHoldMs` ends the hold. */
  readonly limitAt: number
}

/** Some holds delegate to the one that stands on the claim. */
export function standingOf(hold: object): SeenStanding {
  const standing: unknown = Reflect.get(hold, 'standing')
  if (typeof standing === 'object' && standing !== null) return standing as SeenStanding
  const inner: unknown = Reflect.get(hold, 'inner')
  if (typeof inner === 'object' && inner !== null) return standingOf(inner)
  throw new TypeError('This hold shows no claim.')
}
