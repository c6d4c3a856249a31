/** What a client tells whoever listens. Claim ids never appear; names and notes are the caller's own. */

import type { LockLostReason } from './errors.js'

export type HoldfastEvent =
  | {
      readonly type: 'granted'
      readonly resource: string
      readonly fence: bigint | null
      readonly waitedMs: number
    }
  | {
      readonly type: 'released'
      readonly resource: string
      readonly outcome: 'released' | 'gone' | 'unconfirmed'
    }
  | { readonly type: 'lost'; readonly resource: string; readonly reason: LockLostReason }
  | { readonly type: 'renewal-failed'; readonly resources: readonly string[]; readonly error: unknown }
  | { readonly type: 'evicted'; readonly resource: string; readonly ref: string; readonly reason: string }
  | { readonly type: 'sleep-noticed'; readonly byMs: number }

export type Report = (event: HoldfastEvent) => void
