import type { ClaimView } from './contract.js'

/** What the page has learned of one claim from the reports it has seen. All moments are of the page's steady clock. */
export interface Lease {
  /** When the last report arrived. */
  readonly at: number
  readonly ageMs: number
  /** What was left then; null where a session or a connection keeps the claim. */
  readonly remainingMs: number | null
  /** The longest lease that was seen, and the shortest that is possible after all reports: the ttl is in between. */
  readonly leastMs: number
  readonly mostMs: number
  /** How often a report showed more time left than the one before. */
  readonly renewals: number
  readonly renewedAt: number | null
}

/** Reports are late by different amounts; only what is clearly more is a renewal. */
const RENEWAL_MS = 400

/** Lengths that people choose. A lease that was first seen when part of it was over is taken for the next of these. */
const ROUND_MS = [1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1_800, 3_600].map(
  (s) => s * 1000,
)

function isRound(ms: number): boolean {
  return ROUND_MS.some((round) => Math.abs(round - ms) <= round * 0.005 + 20)
}

export function leaseOf(claim: ClaimView, at: number, before: Lease | undefined): Lease {
  const { ageMs, remainingMs } = claim
  if (remainingMs === null) {
    return { at, ageMs, remainingMs, leastMs: 0, mostMs: 0, renewals: 0, renewedAt: null }
  }
  const possible = Math.max(ageMs + remainingMs, remainingMs)
  if (before === undefined || before.remainingMs === null) {
    // Nobody has renewed it yet if its beginning and its end are as far apart as people choose leases to be.
    const leastMs = isRound(possible) ? possible : remainingMs
    return { at, ageMs, remainingMs, leastMs, mostMs: possible, renewals: 0, renewedAt: null }
  }
  const expected = before.remainingMs - (at - before.at)
  const renewed = remainingMs > expected + RENEWAL_MS
  return {
    at,
    ageMs,
    remainingMs,
    // What was only guessed from the first report is forgotten with the first renewal.
    leastMs: Math.max(renewed && before.renewals === 0 ? 0 : before.leastMs, remainingMs),
    // A claim that waited had a waiter's short lease before, so what was possible then is no bound of what it has now.
    mostMs: renewed ? possible : Math.min(before.mostMs, possible),
    renewals: before.renewals + (renewed ? 1 : 0),
    renewedAt: renewed ? at : before.renewedAt,
  }
}

/** The likely length of the whole lease: what a full bar stands for. */
export function fullMs(lease: Lease): number {
  // Reports are some milliseconds old when they arrive, so 29.98 s is 30 s.
  const round = ROUND_MS.find((ms) => ms >= lease.leastMs - 1) ?? lease.leastMs
  return Math.max(1, lease.leastMs, Math.min(round, lease.mostMs))
}

/** What is left now, by the page's clock since the last report. It may be below zero: then a report is due. */
export function leftMs(lease: Lease, now: number): number | null {
  return lease.remainingMs === null ? null : lease.remainingMs - (now - lease.at)
}

export function ageMs(lease: Lease, now: number): number {
  return lease.ageMs + (now - lease.at)
}

/** The part of the lease that is left, from 0 to 1. */
export function leftPart(lease: Lease, now: number): number {
  const left = leftMs(lease, now)
  return left === null ? 1 : Math.min(1, Math.max(0, left / fullMs(lease)))
}

/** A holder that renews in time never comes this low. */
const EXPIRING_PART = 0.25

export function isExpiring(lease: Lease, now: number): boolean {
  return lease.remainingMs !== null && leftPart(lease, now) < EXPIRING_PART
}
