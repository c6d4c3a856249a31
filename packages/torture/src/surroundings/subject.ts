/** What a check gets, and what it returns. */

import type { ServerProbe } from './probes/probe.js'
import type { Seeded } from './random.js'

export type Library = typeof import('./library.js')

/** Every check that exists, in the order of the table. */
export const CHECKS = ['lifetime', 'context', 'memory', 'statements'] as const

export type CheckName = (typeof CHECKS)[number]

/** How much is done. `npm test` uses the short sizes, `npm run test:deep` the deep ones. */
export interface Sizes {
  /** Acquisitions of each kind of call in one round of the memory check. */
  readonly acquisitions: number
  /** Callers with an async context of their own. */
  readonly callers: number
  /** Random sequences of statements for each kind of transaction. */
  readonly sequences: number
  /** Whether the growth of the heap is judged as well, which needs many acquisitions. */
  readonly heap: boolean
}

export const SHORT: Sizes = { acquisitions: 20, callers: 4, sequences: 10, heap: false }
export const DEEP: Sizes = { acquisitions: 4_000, callers: 60, sequences: 600, heap: true }

/** One recipe of one store, with a place of its own in it. */
export interface Recipe {
  /** Such as `postgres`. */
  readonly store: string
  /** Such as `advisory`. */
  readonly recipe: string
  /** What clients connect to. */
  readonly url: string
  /** As short as the store allows, so that a check can wait for the end of a lease. */
  readonly ttlMs: number
}

export interface Subject extends Recipe {
  readonly library: Library
  readonly sizes: Sizes
  readonly random: Seeded
  /** Counts what the server has. */
  readonly probe: ServerProbe
}

/** What a check found wrong. An empty list means that the recipe passed. */
export interface Finding {
  /** What was done, such as `semaphore acquire`. */
  readonly what: string
  /** What was seen, and what was expected. */
  readonly message: string
}

/** Null: the recipe has nothing that this check is about. */
export type Check = (subject: Subject) => Promise<readonly Finding[] | null>

let names = 0

/** A name that no other check uses, in this process or in another one. */
export function freshName(what: string): string {
  names += 1
  return `surroundings-${what}-${process.pid}-${names}`
}

/** The module `library.ts` as text, for builds of the library from its source. */
export const LIBRARY_ENTRY = `
export * as dedupe from 'holdfast/dedupe'
export * as idempotency from 'holdfast/idempotency'
export * as mysql from 'holdfast/mysql'
export * as postgres from 'holdfast/postgres'
export * as holdfast from 'holdfast'
`
