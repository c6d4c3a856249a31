/** What the checks read of a hold's claim, beyond what callers see. None of it changes anything. */
export interface SeenStanding {
  readonly claim: { readonly id: string; readonly ttlMs: number }
  readonly fence: bigint | null
  readonly lease: { readonly sentAt: number; readonly leaseMs: number }
  /** When the store's grant reached the client, on the monotonic clock of the process. */
  readonly since: number
  /** false: a fixed lease, which is not renewed. */
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

/** The fencing token of a hold; null where the store mints none, because reading it would throw. */
export function tokenOf(hold: { readonly fence: bigint }): bigint | null {
  return standingOf(hold).fence === null ? null : hold.fence
}

/** How many fencing tokens a caller sees between two positions in the queue of the store. */
const FENCE_STEP = 1_024n

/** How often the claim of a hold was handed over inside its process; null where no fencing token says so. */
export function handOversOf(hold: { readonly fence: bigint }): number | null {
  const token = tokenOf(hold)
  return token === null ? null : Number(token % FENCE_STEP)
}
