/**
 * Who may hold what, as far as the answers of a service allow one to know. It is pure: it is given what was asked, what was
 * answered and when, and returns what is impossible. An outcome that is not known widens what is possible.
 */

import { refOf } from 'holdfast/service'
import {
  type Bounds,
  copyOf,
  count,
  doubt,
  type Entry,
  livesPossibly,
  livesSurely,
  MARGIN_MS,
  newEntry,
  readText,
  restore,
  type Shape,
  sameShape,
} from './entries.js'
import { repeatFindings, textFindings } from './grant-findings.js'
import type { Ask, ModelLimits, Pending } from './pending.js'
import { type Answered, textIn } from './wire.js'
import type { Tenant } from './world.js'

type Findings = readonly string[]
const NONE: Findings = []

/** An entry whose client hung up can be there for so much longer than its lease. */
const HANG_UP_SLACK_MS = 3_000
/** Ended entries are kept for this long, because requests that were sent earlier may still be refused for them. */
const KEEP_MS = 20_000
/** A wait that took so much longer than it was asked to was ended by a machine that was busy. */
const STALL_MS = 30

export class LocksModel {
  readonly #limits: ModelLimits
  readonly #byName = new Map<string, Set<Entry>>()
  readonly #floors = new Map<string, bigint>()

  constructor(limits: ModelLimits) {
    this.#limits = limits
  }

  entriesOf(name: string): readonly Entry[] {
    return [...(this.#byName.get(name) ?? [])]
  }

  find(name: string, id: string): Entry | undefined {
    return this.entriesOf(name).find((entry) => entry.id === id)
  }

  /** Whether a request with the id is under way for another name. */
  isInFlightElsewhere(name: string, id: string | null): boolean {
    if (id === null) return false
    const others = [...this.#byName].filter(([other]) => other !== name)
    return others.some(([, entries]) => [...entries].some((entry) => entry.id === id && entry.inFlight > 0))
  }

  begin(ask: Ask, sentAt: number): Pending {
    const { id, name, shape, weight, tenant, note } = ask
    this.#forget(name, sentAt)
    const entry =
      (id === null ? undefined : this.find(name, id)) ?? this.#add(newEntry(id, name, shape, weight))
    const before = copyOf(entry)
    entry.inFlight += 1
    if (entry.inFlight > 1) entry.isTangled = true
    entry.weightMin = Math.min(entry.weightMin, weight)
    entry.weightMax = Math.max(entry.weightMax, weight)
    entry.notes.add(note)
    entry.possiblyUntil = Number.POSITIVE_INFINITY
    count(entry, tenant, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY)
    if (ask.waitMs > 0 || ask.stayMs > 0)
      entry.waits = { tenant: tenant.name, until: Number.POSITIVE_INFINITY }
    return { ask, entry, before, sentAt, floor: this.#floors.get(name) ?? -1n }
  }

  /** The request was refused for what it is, so nothing has changed. */
  refused({ entry, before }: Pending): void {
    this.#over(entry)
    restore(entry, before)
  }

  hungUp({ ask, entry, before }: Pending, at: number): void {
    this.#over(entry)
    const untilMs = Math.max(ask.ttlMs, ask.stayMs) + HANG_UP_SLACK_MS
    doubt(entry)
    entry.isTangled = true
    entry.possiblyUntil = Math.max(before.possiblyUntil, at + untilMs)
    if (ask.waitMs > 0 || ask.stayMs > 0) entry.waits = { tenant: ask.tenant.name, until: at + untilMs }
    entry.counted.delete(ask.tenant.name)
    for (const [tenant, bounds] of before.counted) entry.counted.set(tenant, { ...bounds })
    count(entry, ask.tenant, Number.NEGATIVE_INFINITY, at + untilMs)
  }

  granted(pending: Pending, { json }: Answered, at: number): Findings {
    const { ask, entry: pendingEntry, before, sentAt, floor } = pending
    this.#over(pendingEntry)
    const text = readText(json['claim'])
    if (text === null) return ['shape: the claim of the answer cannot be read']
    const entry = this.#named(pendingEntry, text.id)
    const fence = json['fence'] === null ? null : BigInt(textIn(json, 'fence'))
    const findings = [
      ...textFindings(ask, json, text),
      ...(entry.isTangled ? [] : repeatFindings(pending, fence, at)),
      ...this.#quotaFindings(ask, before, at),
    ]
    if (fence !== null && !entry.isTangled && !livesPossibly(before, sentAt) && fence <= floor)
      findings.push(`fence: ${fence} is not above ${floor}, which was answered before the request was sent`)
    const leaseMs = Number(json['leaseMs'])
    const remainingMs = Number(json['remainingMs'])
    if (
      !livesPossibly(before, sentAt) &&
      ask.waitMs + ask.stayMs === 0 &&
      leaseMs > ask.ttlMs + (at - sentAt)
    )
      findings.push(`lease: ${leaseMs} ms were promised for a ttl of ${ask.ttlMs} ms`)
    this.#hold(entry, ask, fence, { surelyUntil: sentAt + leaseMs - MARGIN_MS, possiblyUntil: at + leaseMs })
    count(entry, ask.tenant, sentAt + remainingMs, at + Math.max(ask.ttlMs, leaseMs))
    entry.knownSince = at
    if (fence !== null) this.#floors.set(ask.name, max(this.#floors.get(ask.name) ?? -1n, fence))
    return [...findings, ...this.exclusionFindings(ask.name, at)]
  }

  /** Claims that surely hold at the same time fit the limit. */
  exclusionFindings(name: string, at: number): Findings {
    const held = this.entriesOf(name).filter((entry) => entry.isHolding && livesSurely(entry, at))
    const [first] = held
    if (first === undefined) return NONE
    const sum = held.reduce((total, { weightMin }) => total + weightMin, 0)
    const findings: string[] = []
    if (held.some(({ shape }) => !sameShape(shape, first.shape)))
      findings.push('exclusion: claims of two kinds of lock hold at the same time')
    if (sum > first.shape.limit)
      findings.push(
        `exclusion: claims of weight ${sum} hold at the same time, and the limit is ${first.shape.limit}`,
      )
    return findings
  }

  locked(pending: Pending, { json }: Answered, at: number): Findings {
    const { ask, entry, before, sentAt } = pending
    this.#over(entry)
    const isTangled = entry.isTangled
    const others = this.entriesOf(ask.name).filter((each) => each !== entry && livesPossibly(each, sentAt))
    const findings: string[] = []
    const sum = others.reduce((total, { weightMax }) => total + weightMax, 0)
    // Weights can have shrunk during a wait, and on a slow machine a wait can be over before the store has answered.
    const isFree = ask.waitMs === 0 ? sum + ask.weight <= ask.shape.limit : others.length === 0
    if (!isTangled && isFree && at - sentAt < ask.waitMs + STALL_MS)
      findings.push(
        `refusal: nothing that can be there stands in the way (weight ${sum} of ${ask.shape.limit})`,
      )
    const fits = ask.weight <= before.weightMin && sameShape(ask.shape, before.shape)
    if (!isTangled && fits && before.isHolding && livesSurely(before, at))
      findings.push('refusal: the claim with this id surely holds')
    const place = json['place'] as Readonly<Record<string, unknown>> | null
    this.#waited(pending, at)
    if (place === null) {
      if (livesPossibly(before, sentAt)) doubt(entry)
      return findings
    }
    return [...findings, ...this.#placed(entry, pending, place, at)]
  }

  /** The request had no lasting effect, but it may have been seen in the queue until now. */
  #waited({ ask, entry, before }: Pending, at: number): void {
    restore(entry, before)
    entry.notes.add(ask.note)
    entry.possiblyUntil = Math.max(before.possiblyUntil, at)
  }

  /** The claim with this id has another weight than was asked for; it stays as it is. */
  weightConflict({ ask, entry, before, sentAt }: Pending, found: number, at: number): Findings {
    this.#over(entry)
    restore(entry, before)
    // A lease that is about to end can be prolonged by any request with its id.
    entry.possiblyUntil = Math.max(entry.possiblyUntil, at + ask.ttlMs + MARGIN_MS)
    count(entry, ask.tenant, Number.NEGATIVE_INFINITY, at + ask.ttlMs)
    if (entry.isTangled) return NONE
    if (!livesPossibly(before, sentAt) || before.weightMin >= ask.weight)
      return [`conflict: no claim with this id can have less than ${ask.weight}`]
    const isKnown = found >= before.weightMin && found <= before.weightMax
    if (!isKnown) return [`weight: ${found} was answered, and the claim has ${before.weightMin}`]
    entry.weightMin = found
    entry.weightMax = found
    return NONE
  }

  shapeConflict({ ask, entry, before, sentAt }: Pending, found: Partial<Shape>): Findings {
    this.#over(entry)
    restore(entry, before)
    const possible = this.entriesOf(ask.name).filter((each) => livesPossibly(each, sentAt))
    const others = possible.filter(({ shape }) => !sameShape(shape, ask.shape))
    if (others.some(({ shape }) => shape.kind === found.kind && shape.limit === found.limit)) return NONE
    return [`conflict: the name cannot be in use as ${JSON.stringify(found)}`]
  }

  /** Another request with the id went on, or a release of it may still take effect. */
  superseded(pending: Pending, code: string, at: number): Findings {
    const { entry, ask } = pending
    // The end of a wait releases the claim, and the release may not have been confirmed yet.
    const isExplained = entry.isTangled || (code === 'ID_SPENT' && ask.waitMs > 0)
    this.hungUp(pending, at)
    return isExplained ? NONE : ['conflict: no other request with this id was under way']
  }

  tooManyClaims(pending: Pending): Findings {
    const { ask, sentAt } = pending
    const possible = this.possibleClaims(ask.tenant, sentAt, pending.entry)
    this.refused(pending)
    if (possible >= this.#limits.claimsPerPrincipalMax) return NONE
    return [`quota: refused with at most ${possible} claims of ${this.#limits.claimsPerPrincipalMax}`]
  }

  tooManyWaiters(pending: Pending): Findings {
    const { ask, sentAt, entry } = pending
    const waiting = this.#all().filter(({ waits }) => waits !== null && waits.until > sentAt)
    const own = waiting.filter((each) => each !== entry && each.waits?.tenant === ask.tenant.name).length
    const here = waiting.filter((each) => each !== entry && each.name === ask.name).length
    this.refused(pending)
    const { waitersPerPrincipalMax, waitersPerNameMax } = this.#limits
    if (own >= waitersPerPrincipalMax || here >= waitersPerNameMax) return NONE
    return [`waiters: refused with at most ${own} of the token and ${here} for the name`]
  }

  queueFull(pending: Pending): Findings {
    const { ask, sentAt } = pending
    const here = this.entriesOf(ask.name).filter((each) => livesPossibly(each, sentAt)).length
    this.refused(pending)
    return here >= this.#limits.waitersPerNameMax ? NONE : [`waiters: the queue has at most ${here} claims`]
  }

  /** How many claims may count for a tenant. */
  possibleClaims(tenant: Tenant, at: number, but: Entry | null = null): number {
    return this.#countedFor(tenant, but, ({ possiblyUntil }) => possiblyUntil > at)
  }

  surelyClaims(tenant: Tenant, at: number, but: Entry | null = null): number {
    return this.#countedFor(tenant, but, ({ surelyUntil }) => surelyUntil > at)
  }

  #countedFor(tenant: Tenant, but: Entry | null, counts: (bounds: Bounds) => boolean): number {
    return this.#all().filter((entry) => {
      const bounds = entry === but ? undefined : entry.counted.get(tenant.name)
      return bounds !== undefined && counts(bounds)
    }).length
  }

  #quotaFindings({ tenant, id, name }: Ask, before: Entry, at: number): Findings {
    if (before.counted.has(tenant.name)) return NONE
    const own = id === null ? null : (this.find(name, id) ?? null)
    const surely = this.surelyClaims(tenant, at, own)
    const { claimsPerPrincipalMax } = this.#limits
    return surely < claimsPerPrincipalMax ? NONE : [`quota: granted although the token has ${surely} claims`]
  }

  #hold(entry: Entry, ask: Ask, fence: bigint | null, bounds: Bounds): void {
    entry.shape = ask.shape
    entry.weightMin = ask.weight
    entry.weightMax = ask.weight
    entry.fence = fence
    entry.isHolding = true
    entry.waits = null
    const isAlone = entry.inFlight === 0
    entry.isTangled &&= !isAlone
    entry.surelyUntil = isAlone ? bounds.surelyUntil : Number.NEGATIVE_INFINITY
    entry.possiblyUntil = isAlone
      ? Math.max(bounds.possiblyUntil, bounds.surelyUntil) + ask.ttlMs + MARGIN_MS
      : Number.POSITIVE_INFINITY
  }

  #placed(entry: Entry, { ask, sentAt }: Pending, place: Answered['json'], at: number): Findings {
    const text = readText(place['claim'])
    if (text === null) return ['shape: the claim of the place cannot be read']
    if (ask.stayMs === 0) return ['refusal: a place was kept though none was asked for']
    const named = this.#named(entry, text.id)
    const leaseMs = Math.max(ask.stayMs, ask.ttlMs, Number(place['leaseMs']))
    named.shape = ask.shape
    named.weightMin = ask.weight
    named.weightMax = ask.weight
    named.fence = place['fence'] === null ? null : BigInt(textIn(place, 'fence'))
    named.notes.add(ask.note)
    named.isHolding = false
    named.surelyUntil = sentAt + Number(place['remainingMs']) - MARGIN_MS
    named.possiblyUntil = at + leaseMs + MARGIN_MS
    named.knownSince = at
    named.waits = { tenant: ask.tenant.name, until: at + ask.stayMs + MARGIN_MS }
    return text.weight === ask.weight
      ? NONE
      : [`weight: the place has ${text.weight}, and ${ask.weight} was asked for`]
  }

  /** An entry whose id the service minted gets its id with the answer. */
  #named(entry: Entry, id: string): Entry {
    if (entry.id === null) Object.assign(entry, { id, ref: refOf(id) })
    return entry
  }

  #add(entry: Entry): Entry {
    const entries = this.#byName.get(entry.name) ?? new Set()
    this.#byName.set(entry.name, entries)
    entries.add(entry)
    return entry
  }

  #over(entry: Entry): void {
    entry.inFlight -= 1
  }

  #forget(name: string, now: number): void {
    const entries = this.#byName.get(name)
    for (const entry of entries ?? []) {
      const counts = [...entry.counted.values()].some(({ possiblyUntil }) => possiblyUntil > now)
      if (entry.inFlight === 0 && entry.possiblyUntil < now - KEEP_MS && !counts) entries?.delete(entry)
    }
  }

  #all(): readonly Entry[] {
    return [...this.#byName.values()].flatMap((entries) => [...entries])
  }
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b
}
