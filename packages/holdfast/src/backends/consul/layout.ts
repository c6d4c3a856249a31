/** What the backend needs of one way to keep a claim in Consul's keys. */

import type { Claim, ClaimView, HolderNote, Shape } from '../../core/backend.js'
import { BackendUnavailableError } from '../../core/errors.js'
import type { Place } from './keys.js'
import type { Pair } from './kv.js'
import type { ConsulSession } from './session.js'

/** A claim that is in the store. */
export interface Held {
  readonly place: Place
  readonly fence: bigint
  readonly session: ConsulSession
  /** The key that the session has locked, and the number of the step that did. */
  readonly key: string
  readonly index: bigint
  /** When it was taken, by the wall clock, for people to see. */
  readonly since: number | null
}

export type Taken =
  | { readonly kind: 'taken'; readonly held: Held }
  /** `index`: what a wait for a change goes on from; null: begin with what is there. */
  | { readonly kind: 'refused'; readonly holder: HolderNote | null; readonly index: bigint | null }
  | { readonly kind: 'mismatched'; readonly shape: Shape }
  | { readonly kind: 'session-ended' }

export interface Layout {
  /** Where a wait for a change looks. */
  watched(place: Place): { readonly key: string; readonly isPrefix: boolean }
  take(place: Place, session: ConsulSession, claim: Claim): Promise<Taken>
  /** Gives it up, and says whether it was still there. */
  giveUp(held: Held): Promise<boolean>
  /** Gives up what a request that was never answered may have made. */
  giveUpUnknown(place: Place, session: ConsulSession): Promise<boolean>
  /** Removes what the end of a session leaves behind, if nobody needs it. */
  tidy?(place: Place): Promise<void>
  /** Those that are still there. The others certainly are not. */
  stillThere(held: readonly Held[]): Promise<ReadonlySet<Held>>
  /** Puts it into another session in one step; null: it is not there any more. */
  move(held: Held, to: ConsulSession, claim: Claim): Promise<Held | null>
}

/** What a resource is used for, read from its keys. */
export interface Found {
  readonly shape: Shape
  readonly holders: readonly { readonly pair: Pair; readonly view: ClaimView }[]
}

/** `consul lock` and the programs that use Consul's own library know their keys by these. */
export const MUTEX_FLAGS = 0x2ddccbc058a50c18n
export const SEMAPHORE_FLAGS = 0xe0f69a2baa414de0n

export const MUTEX_SHAPE: Shape = { kind: 'mutex', limit: 1 }

const SESSION_GONE = /invalid session/i
const LOCK_DELAY = /lock delay/i
/** What a check says of a lock that is not ours any more. */
const NOT_OURS = /session check|check session|doesn't exist|lock isn't held|held by another|index/i

export function isSessionGone(reasons: ReadonlyMap<number, string>): boolean {
  return [...reasons.values()].some((reason) => SESSION_GONE.test(reason))
}

export function isDelayed(reasons: ReadonlyMap<number, string>): boolean {
  return [...reasons.values()].some((reason) => LOCK_DELAY.test(reason))
}

/** Why a claim could not be moved: it is not there any more, or the session that it was to go to is not. */
export function lostOrThrow(reasons: ReadonlyMap<number, string>, to: ConsulSession): null {
  if (!isSessionGone(reasons)) return null
  to.gone()
  throw new BackendUnavailableError('The session that a claim was to go to ended.', { backend: 'consul' })
}

export function isNotOurs(reason: string): boolean {
  return NOT_OURS.test(reason)
}
