/** What the process of a schedule and those of its actors say to each other. */

import type { Contender } from './case.js'
import type { PointAction } from './lock.js'

/** How one caller inside of an actor's process is set up. */
export interface ActorSetup {
  readonly caseName: string
  readonly contender: Contender
  /** The name of the process in the history; the caller is `process.actor`. */
  readonly process: string
  readonly actor: string
  readonly url: string
  readonly settings: Readonly<Record<string, unknown>>
  readonly historyFile: string
}

export type Command =
  | { readonly do: 'acquire'; readonly name: string; readonly ttlMs: number; readonly waitMs: number }
  | { readonly do: 'release' | 'assert' | 'extend' | 'read'; readonly name: string }
  | {
      readonly do: 'write' | 'add'
      readonly name: string
      readonly value: number
      readonly check: boolean
    }
  | { readonly do: 'act'; readonly what: string; readonly input: unknown }
  | { readonly do: 'arm'; readonly point: string; readonly action: PointAction }
  | { readonly do: 'go'; readonly point: string }
  | { readonly do: 'clock'; readonly aheadMs: number }
  | { readonly do: 'close' }

export type Request =
  | { readonly kind: 'open'; readonly id: number; readonly setup: ActorSetup }
  | { readonly kind: 'command'; readonly id: number; readonly actor: string; readonly command: Command }

export type Reply =
  | { readonly kind: 'done'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'failed'; readonly id: number; readonly error: string }
  | { readonly kind: 'at'; readonly actor: string; readonly point: string }
