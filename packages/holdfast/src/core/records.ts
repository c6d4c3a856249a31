/**
 * The narrow interface between idempotency and a store that keeps its records. Types only: nothing here runs. What a
 * claim does to a record is decided by `record-rule.ts`; a store runs that function, or a script or statement that is
 * tested against it.
 */

import type { Renewal } from './backend.js'

/**
 * `issued`: a token that nobody has shown yet. `in-progress`: somebody works on it, for as long as the lease of the owner
 * lasts; after that it is abandoned. `released`: the work failed, left nothing behind, and may be done again.
 */
export type RecordState = 'issued' | 'in-progress' | 'completed' | 'failed' | 'released'

/** What one record says. How long its lease and the record itself last, each store keeps in its own way. */
export interface IdempotencyRecord {
  readonly state: RecordState
  /** The id of the last claim: fresh and random for each, and the only key to a change. Empty before the first. */
  readonly owner: string
  /** Higher for every claim of this key, also after the record was purged. */
  readonly fence: bigint
  /** 1 for the first claim; 0 before it. For tokens that are counted, how often one was shown. */
  readonly attempt: number
  /** Whether the last claim was taken from an owner that had not finished, so that nobody knows how far it came. */
  readonly tookOver: boolean
  /** What stands for the input of the request: a version of three characters and 64 hexadecimal digits; null: nothing is compared. */
  readonly fingerprint: string | null
  /** Results of steps that are done; it outlives its attempt. */
  readonly progress: string | null
  /** Well-formed text without control characters below U+0020, or null: nothing was kept of the result. */
  readonly result: string | null
  /** By the clock of the store, in milliseconds since 1970; null where the store has none. For people only. */
  readonly createdAtMs: number | null
}

export interface ClaimAsk {
  /** 64 hexadecimal digits. */
  readonly key: string
  readonly owner: string
  readonly fingerprint: string | null
  readonly leaseMs: number
  /** How long the record stays once it is settled or released; null for ever. An unfinished one stays longer by its lease. */
  readonly retentionMs: number | null
  /** false: an abandoned record is answered for and left as it is. */
  readonly takeOver: boolean
  /** true: only a record that is there can be claimed, which is how a token becomes one. */
  readonly onlyIssued: boolean
}

export type ClaimAnswer =
  | {
      readonly kind: 'claimed'
      readonly fence: bigint
      readonly attempt: number
      readonly tookOver: boolean
      readonly progress: string | null
      readonly createdAtMs: number | null
      /** What the store promises, counted by the client from before the request was sent. */
      readonly leaseMs: number
    }
  /** `leaseMs`: when it would end by itself, at the latest. */
  | {
      readonly kind: 'in-progress'
      readonly fence: bigint
      readonly attempt: number
      readonly leaseMs: number
    }
  | { readonly kind: 'abandoned'; readonly fence: bigint; readonly attempt: number }
  | {
      readonly kind: 'settled'
      readonly state: 'completed' | 'failed'
      readonly fence: bigint
      readonly attempt: number
      readonly result: string | null
      readonly createdAtMs: number | null
    }
  /** Another request has this key. Told before anything else about it. */
  | { readonly kind: 'mismatch' }
  /** Nothing is there, and `onlyIssued` was asked for. */
  | { readonly kind: 'missing' }

/** Which claim is meant: its owner's id opens it, and the fence tells a later claim of the same key apart. */
export interface ClaimRef {
  readonly key: string
  readonly owner: string
  readonly fence: bigint
}

export interface RenewAsk extends ClaimRef {
  /** The lease shall last at least this much longer; 0 only asks. A renewal never shortens. */
  readonly leaseMs: number
  readonly retentionMs: number | null
}

export interface FinishAsk extends ClaimRef {
  readonly state: 'completed' | 'failed' | 'released'
  readonly result: string | null
  readonly retentionMs: number | null
}

export interface ProgressAsk extends ClaimRef {
  readonly progress: string
}

/** `stale`: the record is somebody else's by now, or gone, and was not touched. */
export type FinishAnswer = 'done' | 'stale'

export interface SpendAsk {
  readonly key: string
  /** true: every showing is counted. false: only the first one changes anything. */
  readonly count: boolean
}

/** `uses`: how often it was shown, where that is counted. */
export interface SpendAnswer {
  readonly kind: 'spent' | 'used' | 'missing'
  readonly uses: number
}

export interface RecordView extends IdempotencyRecord {
  /** What is left of the lease of an unfinished one, at the latest; 0: abandoned. null where it is not in progress. */
  readonly leaseMs: number | null
}

/** What a store can keep, as data. What it cannot is refused before anything is tried. */
export interface RecordTraits {
  /** `volatile`: it may forget a record before its time, because memory is short or the process ends. */
  readonly keeps: 'durable' | 'volatile'
  /** `strict`: fences of a key grow over everything, also a purge. */
  readonly fencing: 'strict' | 'best-effort'
  /** The most that progress and result may take together, in bytes. */
  readonly bytesMax: number
  readonly leaseMinMs: number
  readonly leaseMaxMs: number
  /** null: as long as one likes. What is durable also keeps for ever, whatever stands here. */
  readonly retentionMaxMs: number | null
}

export interface RecordStore {
  readonly name: string
  /** Known once the store is open. */
  readonly traits: RecordTraits
  open(): Promise<void>
  /** One round trip where nobody else is about, answered with what is there. Idempotent by owner. */
  claim(ask: ClaimAsk): Promise<ClaimAnswer>
  /** One answer per request, in order. A rejection means that nothing is known. */
  renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]>
  /**
   * Allowed after the lease as long as nobody has taken over: the result is real. Repeated by the same owner it is `done`
   * once more, and changes nothing.
   */
  finish(ask: FinishAsk): Promise<FinishAnswer>
  /** Keeps what has been done so far, of a claim that goes on. */
  save(ask: ProgressAsk): Promise<FinishAnswer>
  read(key: string): Promise<RecordView | null>
  /** Puts a token there: a record that waits for its first claim. A key that is taken is refused with `false`. */
  issue(key: string, retentionMs: number): Promise<boolean>
  /** Uses a token up in one step. The record stays for the rest of its time, so that a second showing is told apart. */
  spend(ask: SpendAsk): Promise<SpendAnswer>
  /** Removes it whatever it says. For operators. */
  forget(key: string): Promise<boolean>
  close(): Promise<void>
  /** Why requests wait just now, as a sentence for the message of one that was not answered in time; null: not known. */
  silence?(): string | null
  /** Removes up to `max` records whose time is over, and says how many; only where the store does not do that itself. */
  purge?(max: number): Promise<number>
  /** What must be there before the first claim, as text for people to read. */
  readonly schema?: string
  /** Makes it, or brings it up to date. It may be called again at any time, by several at once. */
  migrate?(): Promise<void>
}
