/** What the program that waits and its parent say to each other. */

import type { Guarantees } from 'holdfast'
import type { Held } from './lifetime-cases.js'

/** How the program is set up: as JSON, its first argument. */
export interface WaiterSetup {
  /** The build of the library, as something to import. */
  readonly library: string
  readonly url: string
  readonly recordsUrl: string | null
  readonly ttlMs: number
  /** What the names begin with. */
  readonly prefix: string
  /** Only these cases; empty: all. */
  readonly only: string
}

export type FromWaiter =
  /** Asks the parent to hold a name. */
  | { readonly kind: 'hold'; readonly held: Held; readonly name: string }
  /** The program waits now. */
  | { readonly kind: 'waiting'; readonly held: Held; readonly name: string }
  | { readonly kind: 'done'; readonly what: string }
  /** The event loop was empty although the case had not ended: without the check, the process would be gone. */
  | { readonly kind: 'would have ended'; readonly what: string }
  | { readonly kind: 'failed'; readonly what: string; readonly message: string }
  /** The cases are over and the client is closed. Nothing keeps the program from ending. */
  | { readonly kind: 'closed'; readonly resources: readonly string[] }
  /** All clients are closed but one, which holds a lock. */
  | { readonly kind: 'holding'; readonly resources: readonly string[]; readonly guarantees: Guarantees }

export type ToWaiter = { readonly kind: 'held'; readonly name: string }
