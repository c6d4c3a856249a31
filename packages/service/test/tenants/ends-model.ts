/** What ends and prolongs claims: renewals, releases and breaks, and what views show of claims. */

import {
  copyOf,
  count,
  doubt,
  type Entry,
  end,
  livesPossibly,
  livesSurely,
  MARGIN_MS,
  restore,
} from './entries.js'
import type { LocksModel } from './locks-model.js'
import type { Answered } from './wire.js'
import type { Tenant } from './world.js'

type Findings = readonly string[]

/** A request that ends or prolongs a claim, under way. */
export interface Ending {
  readonly entry: Entry | null
  readonly before: Entry | null
  readonly sentAt: number
}

export function beginEnding(model: LocksModel, name: string, id: string, sentAt: number): Ending {
  const entry = model.find(name, id) ?? null
  return { entry, before: entry === null ? null : copyOf(entry), sentAt }
}

/** From when it is sent, a release may have taken effect. */
export function beginRelease(model: LocksModel, name: string, id: string, sentAt: number): Ending {
  const ending = beginEnding(model, name, id, sentAt)
  if (ending.entry !== null) {
    doubt(ending.entry)
    if (ending.entry.inFlight > 0) ending.entry.isTangled = true
  }
  return ending
}

export function released({ entry, before, sentAt }: Ending, { json }: Answered, at: number): Findings {
  const outcome = json['outcome']
  if (outcome === 'released') {
    if (entry === null || before === null) return ['release: there is no claim with this id under this name']
    if (entry.inFlight > 0) return []
    end(entry, at)
    return livesPossibly(before, sentAt) ? [] : ['release: a claim that had ended was released']
  }
  if (entry === null || before === null) return []
  if (!before.isTangled) end(entry, at)
  return livesSurely(before, at) ? ['release: a claim that surely lives was not found'] : []
}

/** A release that was refused has changed nothing. */
export function notEnded({ entry, before }: Ending): void {
  if (entry !== null && before !== null) restore(entry, before)
}

export interface Renewed {
  readonly tenant: Tenant
  readonly fence: bigint | null
  readonly leaseMs: number
}

export function renewed(
  { entry, before, sentAt }: Ending,
  { tenant, fence, leaseMs }: Renewed,
  remainingMs: number,
  at: number,
): Findings {
  if (entry === null || before === null) return ['renewal: there is no claim with this id under this name']
  const findings: string[] = []
  if (!livesPossibly(before, sentAt)) findings.push('renewal: a claim that had ended was renewed')
  if (before.fence !== null && fence !== before.fence && !before.isTangled)
    findings.push(`renewal: ${fence} was renewed, and the claim has the fence ${before.fence}`)
  if (remainingMs > leaseMs) findings.push(`lease: ${remainingMs} ms are left of ${leaseMs} ms`)
  if (!before.isTangled) entry.surelyUntil = Math.max(entry.surelyUntil, sentAt + remainingMs - MARGIN_MS)
  entry.possiblyUntil = Math.max(entry.possiblyUntil, at + leaseMs + MARGIN_MS)
  entry.knownSince = Math.max(at, Number.isFinite(entry.knownSince) ? entry.knownSince : at)
  count(entry, tenant, Number.NEGATIVE_INFINITY, at + leaseMs)
  return findings
}

export function lost({ entry, before }: Ending, fence: bigint | null, at: number): Findings {
  if (entry === null || before === null || before.isTangled) return []
  const isMeant = before.fence === fence
  if (isMeant) end(entry, at)
  return isMeant && livesSurely(before, at) ? ['renewal: a claim that surely lives was told to be lost'] : []
}

interface ShownClaim {
  readonly ref: string
  readonly note: string | null
  readonly weight: number
  readonly fence: string | null
}

export interface ShownLock {
  readonly name: string
  readonly shape: { readonly kind: string; readonly limit: number } | null
  readonly holders: readonly ShownClaim[]
  readonly waiters: readonly ShownClaim[]
  readonly holdersTotal: number
  readonly waitersTotal: number
}

/** Compares what is shown of a lock with what can be there between two times. */
export function viewFindings(model: LocksModel, lock: ShownLock, sentAt: number, at: number): Findings {
  const findings = claimsFindings(model, lock.name, [...lock.holders, ...lock.waiters], sentAt)
  const refs = new Set(lock.holders.map(({ ref }) => ref))
  const isWhole = lock.holders.length === lock.holdersTotal
  const held = model
    .entriesOf(lock.name)
    .filter((entry) => entry.isHolding && entry.knownSince <= sentAt && livesSurely(entry, at))
  for (const { ref } of isWhole ? held : []) {
    if (ref !== null && !refs.has(ref)) findings.push(`view: the claim ${ref} surely holds and is not shown`)
  }
  if (lock.holdersTotal < held.length)
    findings.push(`view: ${lock.holdersTotal} holders are counted, and ${held.length} surely hold`)
  const weight = lock.holders.reduce((sum, claim) => sum + claim.weight, 0)
  if (lock.shape !== null && weight > lock.shape.limit)
    findings.push(`exclusion: holders of weight ${weight} are shown, and the limit is ${lock.shape.limit}`)
  return findings
}

/** Each claim that is shown can be there, and is shown as it is stored. */
export function claimsFindings(
  model: LocksModel,
  name: string,
  claims: readonly ShownClaim[],
  sentAt: number,
): string[] {
  const entries = model.entriesOf(name)
  let unknown = 0
  const findings: string[] = []
  for (const claim of claims) {
    const entry = entries.find(({ ref }) => ref === claim.ref)
    if (entry === undefined) unknown += 1
    else findings.push(...claimFindings(entry, claim, sentAt))
  }
  const unnamed = entries.filter((entry) => entry.id === null && livesPossibly(entry, sentAt)).length
  if (unknown > unnamed)
    findings.push(`view: ${unknown} claims are shown that no tenant made, ${unnamed} can be there`)
  return findings
}

function claimFindings(entry: Entry, claim: ShownClaim, sentAt: number): string[] {
  const findings: string[] = []
  const { weightMin, weightMax, fence } = entry
  if (!livesPossibly(entry, sentAt)) findings.push(`view: the claim ${claim.ref} has ended and is shown`)
  if (claim.weight < weightMin || claim.weight > weightMax)
    findings.push(`weight: ${claim.weight} is shown, and the claim has ${weightMin} to ${weightMax}`)
  const isSame = fence === null || claim.fence === null || BigInt(claim.fence) === fence
  if (!isSame && entry.inFlight === 0 && !entry.isTangled)
    findings.push(`fence: ${claim.fence} is shown, and the claim has ${fence}`)
  if (!entry.notes.has(claim.note)) findings.push('view: the note is not that of the claim')
  return findings
}

/** A break under way: from when it is sent, every claim that is meant may have ended. */
export interface Breaking {
  readonly name: string
  readonly ref: string | null
  readonly meant: readonly { readonly entry: Entry; readonly before: Entry }[]
  readonly sentAt: number
}

export function beginBreak(model: LocksModel, name: string, ref: string | null, sentAt: number): Breaking {
  const meant = model
    .entriesOf(name)
    .filter((entry) => ref === null || entry.ref === ref)
    .map((entry) => ({ entry, before: copyOf(entry) }))
  for (const { entry } of meant) {
    doubt(entry)
    if (entry.inFlight > 0) entry.isTangled = true
  }
  return { name, ref, meant, sentAt }
}

export function broken(model: LocksModel, breaking: Breaking, { json }: Answered, at: number): Findings {
  const shown = json['broken'] as readonly ShownClaim[]
  const total = Number(json['brokenTotal'])
  const findings = claimsFindings(model, breaking.name, shown, breaking.sentAt)
  const refs = new Set(shown.map(({ ref }) => ref))
  const isWhole = shown.length === total
  for (const { entry, before } of breaking.meant) {
    if (entry.inFlight > 0) continue
    if (entry.ref !== null && refs.has(entry.ref)) end(entry, at)
    else if (isWhole && livesSurely(before, at)) {
      restore(entry, before)
      if (before.isHolding && before.knownSince <= breaking.sentAt)
        findings.push(`break: the claim ${entry.ref} surely holds and was not broken`)
    }
  }
  return findings
}

export function notBroken({ meant }: Breaking): void {
  for (const { entry, before } of meant) restore(entry, before)
}
