/** What is known of one claim. Time is uncertain, so each end is an interval: surely until, and possibly until. */

import { refOf } from 'holdfast/service'
import type { Kind, Tenant } from './world.js'

export interface Shape {
  readonly kind: Kind
  readonly limit: number
}

/** Bounds of something that ends. */
export interface Bounds {
  surelyUntil: number
  possiblyUntil: number
}

export interface Entry extends Bounds {
  /** null: the service minted the id, and no answer has named it. */
  readonly id: string | null
  readonly ref: string | null
  readonly name: string
  shape: Shape
  weightMin: number
  weightMax: number
  /** Notes that may be stored with the claim. */
  readonly notes: Set<string | null>
  /** As callers see it; null: not known. */
  fence: bigint | null
  /** When an answer last confirmed the bounds. */
  knownSince: number
  /** Whether it surely holds while it surely lives. A waiter may have been admitted without an answer. */
  isHolding: boolean
  inFlight: number
  /** Requests with one id ran at the same time, or a client hung up: nothing is certain. */
  isTangled: boolean
  /** The tenants in whose quotas it counts. */
  readonly counted: Map<string, Bounds>
  /** Until when it may count as a waiter, and for whom. */
  waits: { readonly tenant: string; until: number } | null
}

/** Clocks of stores have a grain, and a timer can be early by a fraction of a millisecond. */
export const MARGIN_MS = 30

export function newEntry(id: string | null, name: string, shape: Shape, weight: number): Entry {
  return {
    id,
    ref: id === null ? null : refOf(id),
    name,
    shape,
    weightMin: weight,
    weightMax: weight,
    notes: new Set(),
    fence: null,
    surelyUntil: Number.NEGATIVE_INFINITY,
    possiblyUntil: Number.NEGATIVE_INFINITY,
    knownSince: Number.POSITIVE_INFINITY,
    isHolding: false,
    inFlight: 0,
    isTangled: false,
    counted: new Map(),
    waits: null,
  }
}

/** A copy that later changes do not reach. */
export function copyOf(entry: Entry): Entry {
  const counted = new Map([...entry.counted].map(([tenant, bounds]) => [tenant, { ...bounds }] as const))
  return { ...entry, notes: new Set(entry.notes), counted }
}

/** Puts an entry back to what it was before a request that had no effect. */
export function restore(entry: Entry, before: Entry): void {
  const { inFlight } = entry
  Object.assign(entry, copyOf(before), { inFlight, isTangled: entry.isTangled })
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.kind === b.kind && a.limit === b.limit
}

export function livesSurely(entry: Entry, at: number): boolean {
  return entry.surelyUntil > at && !entry.isTangled
}

export function livesPossibly(entry: Entry, since: number): boolean {
  return entry.possiblyUntil > since
}

/** The claim is over, with all that counts. */
export function end(entry: Entry, at: number): void {
  entry.surelyUntil = Number.NEGATIVE_INFINITY
  entry.possiblyUntil = Math.min(entry.possiblyUntil, at)
  entry.isHolding = false
  entry.waits = null
  for (const bounds of entry.counted.values()) {
    bounds.surelyUntil = Number.NEGATIVE_INFINITY
    bounds.possiblyUntil = Math.min(bounds.possiblyUntil, at)
  }
}

/** It may go on as it was, or be over. */
export function doubt(entry: Entry): void {
  entry.surelyUntil = Number.NEGATIVE_INFINITY
  entry.isHolding = false
  for (const bounds of entry.counted.values()) bounds.surelyUntil = Number.NEGATIVE_INFINITY
}

/** It counts in the quota of a tenant. A lease that ended may count for a second longer. */
export function count(entry: Entry, tenant: Tenant, surelyUntil: number, possiblyUntil: number): void {
  const known = entry.counted.get(tenant.name)
  const slackMs = 1_000 + MARGIN_MS
  entry.counted.set(tenant.name, {
    surelyUntil: Math.max(known?.surelyUntil ?? Number.NEGATIVE_INFINITY, surelyUntil),
    possiblyUntil: Math.max(known?.possiblyUntil ?? Number.NEGATIVE_INFINITY, possiblyUntil + slackMs),
  })
}

/** A claim as `acquire` writes it; null: it is not one. */
export interface ReadText {
  readonly kind: Kind
  readonly limit: number
  readonly weight: number
  readonly ttlMs: number
  readonly id: string
}

const TEXT = /^hf1\.(m|s|rw)\.(\d+)\.(\d+)\.(\d+)\.([A-Za-z0-9_-]{22,64})\.(\d+|-)$/
const KINDS: Readonly<Record<string, Kind>> = { m: 'mutex', s: 'semaphore', rw: 'read-write' }

export function readText(text: unknown): ReadText | null {
  const [, kind = '', limit, weight, ttlMs, id = ''] = TEXT.exec(String(text)) ?? []
  const known = KINDS[kind]
  if (known === undefined) return null
  return { kind: known, limit: Number(limit), weight: Number(weight), ttlMs: Number(ttlMs), id }
}
