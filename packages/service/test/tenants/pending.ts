/** What the model knows of a request to acquire. */

import type { Entry, Shape } from './entries.js'
import type { Tenant } from './world.js'

export interface Ask {
  readonly tenant: Tenant
  readonly name: string
  /** null: the service mints one. */
  readonly id: string | null
  readonly shape: Shape
  readonly weight: number
  readonly ttlMs: number
  readonly waitMs: number
  readonly stayMs: number
  readonly note: string | null
}

/** An acquire that is under way. */
export interface Pending {
  readonly ask: Ask
  readonly entry: Entry
  readonly before: Entry
  readonly sentAt: number
  /** Fences of answers that were there before it was sent. */
  readonly floor: bigint
}

export interface ModelLimits {
  readonly claimsPerPrincipalMax: number
  readonly waitersPerPrincipalMax: number
  readonly waitersPerNameMax: number
}
