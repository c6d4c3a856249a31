/** What callers on other machines ask of a counter, and what it answers. Types only: nothing here runs. */

import type { Claim, HolderNote, Renewal } from './backend.js'

/** One request of a caller on another machine. */
export interface CounterAsk {
  readonly claim: Claim
  /** How long it waits here. */
  readonly waitMs: number
  /** How long its place is kept when the wait is over or it hangs up; 0: the claim leaves the line. */
  readonly stayMs: number
  /** Aborts when the caller hangs up. */
  readonly signal: AbortSignal | null
  /**
   * Whether the caller chose the id of the claim, and so may ask again with it, here or at another counter, also where it
   * was not answered. Of others nobody knows the id, so what they were not told of is given back.
   */
  readonly mayReturn: boolean
}

/** Why a request ended without an answer that is of use to the caller. */
export type CounterEnd =
  | 'hung-up'
  /** Another request of the same claim came, and goes on for it. */
  | 'superseded'
  /** The claim was released by another request. */
  | 'released'
  | 'closed'
  /** A release of the claim may still take effect, so nothing can be built on its id any more. */
  | 'spent'

export type CounterAnswer =
  | {
      readonly kind: 'granted'
      /** The store's number. */
      readonly fence: bigint | null
      /** What is surely left. */
      readonly remainingMs: number
      /** What the store promised, counted from when the request came in: for callers that take off a margin of their own. */
      readonly leaseMs: number
      readonly waitedMs: number
    }
  /** Not granted, and the claim keeps its place for a while. */
  | {
      readonly kind: 'waiting'
      readonly fence: bigint | null
      readonly ahead: number
      readonly remainingMs: number
      readonly leaseMs: number
      readonly retryAfterMs: number | null
      readonly holder: HolderNote | null
    }
  /** Not granted, and nothing of the claim is left at the store. */
  | { readonly kind: 'refused'; readonly retryAfterMs: number | null; readonly holder: HolderNote | null }
  | { readonly kind: 'ended'; readonly why: CounterEnd }

export interface CounterRenewal {
  readonly state: Renewal
  /** What is surely left, where the store promised something. */
  readonly remainingMs: number | null
}
