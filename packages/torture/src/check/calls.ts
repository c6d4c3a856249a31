import type { EventName, EventValue, HistoryEvent, Micros } from '../history/format.js'

/** One call: from the moment before it was made to the moment after it came back. */
export interface Call {
  readonly p: string
  readonly f: EventName
  readonly asked: Micros
  /** When it came back, or its process died; past the end of the history if neither happened. */
  ended: Micros
  /** `info`: nobody knows whether it had an effect. `open`: it never came back, and its process lived on. */
  outcome: 'ok' | 'fail' | 'info' | 'open'
  readonly input: EventValue | undefined
  output: EventValue | undefined
  /** acquire: when the caller knew that it stood in line. */
  queued?: Micros
  /** The number of the hold, in its resource, that it began or is about; -1 for none. */
  hold: number
}

/** How it came that a hold was over. `open`: it was not, when the history ended. */
export type HoldEnd = 'released' | 'lost' | 'expired' | 'death' | 'evicted' | 'open'

/**
 * One hold as its caller could believe in it. From `from` to `to` the caller had every right to think that it held:
 * two of these that overlap cannot be explained by any order of events. It may have been held a little longer on both
 * sides, as far as anybody can tell.
 */
export interface Hold {
  readonly resource: string
  readonly p: string
  /** Counts the holds of a resource from 0, in order of `from`. */
  readonly number: number
  readonly mode: 'exclusive' | 'shared'
  readonly weight: number
  fence: bigint | null
  /** When it was asked for. */
  readonly asked: Micros
  /** When its process first sent the request that the store granted; `asked` if that was not recorded. */
  readonly since: Micros
  /** Which request of its process that was; null if that is not known. */
  readonly request: number | null
  readonly from: Micros
  to: Micros
  ended: HoldEnd
  /** When it would have ended, as far as was known when it was given. */
  readonly granted: Micros | null
  /** The last that was known of when the holder would have to stop. */
  until: Micros | null
  /** When a release had certainly been carried out; null if none was. */
  freed: Micros | null
  /** How long it was to stay taken, even if it was released sooner; 0 for no time. */
  readonly minHoldMs: number
  /** It is a read hold that a write hold became. */
  readonly downgraded: boolean
  /** It was over before it was even known to be held, or an operator may have taken it away: it proves nothing. */
  doubtful: boolean
}

/** Everything that a history says about one resource. */
export interface ResourceBook {
  readonly name: string
  readonly calls: Call[]
  readonly holds: Hold[]
  readonly losses: Loss[]
  readonly tripped: HistoryEvent[]
}

/** A holder was told that it is over. */
export interface Loss {
  readonly p: string
  /** The number of the hold in its resource. */
  readonly hold: number
  /** When the hold began. */
  readonly from: Micros
  /** Why, as the library reports it. */
  readonly reason: string
  readonly at: Micros
  /** When it should have stopped, as far as was known; null if nothing was. */
  readonly until: Micros | null
}

/** Whether an error says that there was nothing to release: then the hold is over, although the release failed. */
export function saysNotHeld(error: string | undefined): boolean {
  return error !== undefined && /not.?held|not.?found|lost|expired|stale/i.test(error)
}
