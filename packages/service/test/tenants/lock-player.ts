/** Plays the part of sequences that takes, prolongs and ends locks. Each answer goes to the model. */

import { performance } from 'node:perf_hooks'
import type { Random } from '../fuzz/random.js'
import { pathOf } from '../security/running-service.js'
import {
  anotherShape,
  bodyOf,
  CLAIMS_MAX,
  makeId,
  pickName,
  pickNote,
  pickShape,
  pickTtl,
  spoiled,
  weighed,
} from './asks.js'
import { type Checked, type Checker, describe, type Intent } from './checker.js'
import {
  beginBreak,
  beginEnding,
  beginRelease,
  broken,
  lost,
  notBroken,
  notEnded,
  released,
  renewed,
} from './ends-model.js'
import { readText, type Shape } from './entries.js'
import { type Ask, type LocksModel, type Pending } from './locks-model.js'
import type { Tenant, UsedName } from './world.js'

/** A claim text that a tenant has, or that another one has got hold of. */
export interface KnownClaim {
  readonly tenant: Tenant
  readonly name: string
  readonly text: string
  readonly id: string
  readonly fence: string | null
}

const KNOWN_MAX = 60
const KINDS = { mutex: 'm', semaphore: 's', 'read-write': 'rw' } as const

export class LockPlayer {
  readonly #checker: Checker
  readonly #model: LocksModel
  readonly #random: Random
  readonly #known: KnownClaim[] = []
  readonly #waiting = new Set<Promise<void>>()
  #count = 0

  constructor(checker: Checker, model: LocksModel, random: Random) {
    this.#checker = checker
    this.#model = model
    this.#random = random
  }

  /** Those with a token: what the others do is refused anyway. */
  tenant(): Tenant {
    const { tenants } = this.#checker.group
    const hasRights = this.#random.chance(0.93)
    return this.#random.pick(tenants.filter(({ rights }) => (rights !== null) === hasRights))
  }

  async acquire(tenant = this.tenant(), used?: UsedName): Promise<void> {
    if (this.#isFull(tenant) && !this.#random.chance(0.04)) return await this.release(tenant)
    const ask = this.#askFor(tenant, used ?? pickName(this.#checker.group, tenant, this.#random))
    const body = bodyOf(ask, this.#checker.group, this.#random)
    if (this.#random.chance(0.06)) await this.#acquire(ask, spoiled(body, this.#random))
    else await this.#acquire(ask, { body, flaws: [] })
  }

  /** Many claims at once, with notes that are as long as can be: what makes views large. */
  async burst(tenant = this.tenant(), count = 12): Promise<void> {
    const crowds = this.#checker.group.names.filter(({ limit, kind }) => kind === 'semaphore' && limit > 10)
    const used = this.#random.pick(crowds.filter(({ name }) => name.includes('/s/')))
    for (let at = 0; at < count && !this.#isFull(tenant); at += 1) {
      const note = this.#checker.group.marks.add(used.name, 'inspect')
      const shape: Shape = { kind: 'semaphore', limit: used.limit }
      const large = note + '"'.repeat(1_024 - note.length)
      const ask = { ...this.#askFor(tenant, used), shape, weight: 1, ttlMs: pickLong(tenant), note: large }
      await this.#acquire(ask, { body: bodyOf(ask, this.#checker.group, this.#random), flaws: [] })
    }
    const whole = {
      ...this.#askFor(tenant, used),
      weight: used.limit,
      shape: { kind: used.kind, limit: used.limit },
    }
    await this.#acquire(whole, { body: bodyOf(whole, this.#checker.group, this.#random), flaws: [] })
  }

  /** The same id again: as before, with another weight, kind, ttl or note, under another name, or by another tenant. */
  async again(): Promise<void> {
    const claim = this.#pickKnown()
    if (claim === null || this.#isFull(claim.tenant)) return await this.acquire()
    const entry = this.#model.find(claim.name, claim.id)
    const shape = entry?.shape ?? { kind: 'mutex', limit: 1 }
    const isForeign = this.#random.chance(0.15)
    const tenant = isForeign ? this.tenant() : claim.tenant
    const isElsewhere = this.#random.chance(0.12)
    const used = isElsewhere ? pickName(this.#checker.group, tenant, this.#random) : null
    const wanted = this.#random.chance(0.1) ? anotherShape(shape, this.#random) : shape
    const ask: Ask = {
      ...this.#askFor(tenant, used ?? { name: claim.name, ...shape }),
      ...(used === null ? weighed(wanted, this.#random) : {}),
      id: claim.id,
    }
    await this.#acquire(ask, { body: bodyOf(ask, this.#checker.group, this.#random), flaws: [] })
  }

  /** A reader, and then the same id as a writer: what is stored must not change for it. */
  async upgrade(): Promise<void> {
    const { group } = this.#checker
    const tenant = this.#random.pick(
      group.tenants.filter(({ role }) => role === 'user' || role === 'hoarder'),
    )
    if (this.#isFull(tenant)) return await this.release(tenant)
    const used = this.#random.pick(
      group.names.filter(({ kind, name }) => kind !== 'mutex' && name.includes('/s/')),
    )
    const shape: Shape = { kind: used.kind, limit: used.limit }
    const first = { ...this.#askFor(tenant, used), shape, weight: 1, ttlMs: pickLong(tenant) }
    const ask = { ...first, id: makeId(tenant, this.#random, (this.#count += 1)) }
    await this.#acquire(ask, { body: bodyOf(ask, group, this.#random), flaws: [] })
    const more = { ...ask, weight: used.limit }
    await this.#acquire(more, { body: bodyOf(more, group, this.#random), flaws: [] })
  }

  /** Waits in the background, sometimes until the client hangs up. */
  wait(hangsUp: boolean): void {
    if (this.#waiting.size >= 8) return
    const tenant = this.tenant()
    const base = this.#askFor(tenant, pickName(this.#checker.group, tenant, this.#random))
    const stayMs = this.#random.chance(0.3) ? this.#random.between(100, 800) : 0
    const waitMs = hangsUp && this.#random.chance(0.3) ? 0 : this.#random.between(30, 400)
    const ask = { ...base, waitMs, stayMs, ttlMs: this.#random.pick([450, 900]) }
    const body = bodyOf(ask, this.#checker.group, this.#random)
    const made = { body, flaws: [], ...(hangsUp ? { hangUpMs: this.#random.between(1, 120) } : {}) }
    const waiting = this.#acquire(ask, made).finally(() => this.#waiting.delete(waiting))
    this.#waiting.add(waiting)
  }

  async settled(): Promise<void> {
    await Promise.all(this.#waiting)
  }

  async release(of?: Tenant): Promise<void> {
    const claim = this.#pickKnown(of)
    if (claim === null) return
    const tenant = this.#random.chance(0.2) ? this.tenant() : claim.tenant
    const name = this.#random.chance(0.1)
      ? pickName(this.#checker.group, tenant, this.#random).name
      : claim.name
    const text = this.#random.chance(0.1) ? this.#forged(claim) : claim.text
    const ending = beginRelease(this.#model, name, claim.id, performance.now())
    const intent = this.#intent(tenant, 'release', name, { claim: text })
    const checked = await this.#checker.send(intent)
    const { answer, endedAt } = checked
    if (checked.refused || answer === null || answer.status !== 200) {
      notEnded(ending)
      this.#unexpected(checked, intent)
      return
    }
    this.#checker.found(released(ending, answer, endedAt), describe(intent, answer))
    if (this.#random.chance(0.9)) this.#drop(claim)
  }

  async renew(): Promise<void> {
    const claim = this.#pickKnown()
    if (claim === null) return
    const tenant = this.#random.chance(0.2) ? this.tenant() : claim.tenant
    const ttlMs = this.#random.chance(0.5) ? pickTtl(tenant, this.#random) : undefined
    const isWrongFence = claim.fence !== null && this.#random.chance(0.1)
    const fence = isWrongFence ? String(BigInt(claim.fence ?? 0) + 1_024n) : claim.fence
    const body = {
      claim: claim.text,
      ...(ttlMs === undefined ? {} : { ttlMs }),
      ...(isWrongFence || this.#random.chance(0.2) ? { fence } : {}),
    }
    const leaseMs = ttlMs ?? readText(claim.text)?.ttlMs ?? 0
    const flaws = tenant.maxTtlMs !== null && leaseMs > tenant.maxTtlMs ? [403] : []
    const ending = beginEnding(this.#model, claim.name, claim.id, performance.now())
    const intent = { ...this.#intent(tenant, 'renew', claim.name, body), flaws, shortMs: leaseMs }
    const checked = await this.#checker.send(intent)
    const { answer, endedAt } = checked
    if (checked.refused || answer === null) return
    const meant = fence === null ? null : BigInt(fence)
    const about = describe(intent, answer)
    if (answer.status === 200) {
      const remainingMs = Number(answer.json['remainingMs'])
      this.#checker.found(renewed(ending, { tenant, fence: meant, leaseMs }, remainingMs, endedAt), about)
    } else if (answer.status === 410) this.#checker.found(lost(ending, meant, endedAt), about)
    else this.#unexpected(checked, intent)
  }

  /** Renews several claims with one request; one without the right refuses all of them. */
  async renewAll(): Promise<void> {
    const tenant = this.tenant()
    const leaseMs = pickTtl(tenant, this.#random)
    const claims = Array.from({ length: this.#random.between(1, 6) }, () => this.#pickKnown()).filter(
      (claim) => claim !== null,
    )
    if (claims.length === 0) return
    const sentAt = performance.now()
    const endings = claims.map(({ name, id }) => beginEnding(this.#model, name, id, sentAt))
    const intent: Intent = {
      route: 'batch',
      tenant,
      method: 'POST',
      path: '/v1/renew',
      body: { claims: claims.map(({ name, text }) => ({ name, claim: text, leaseMs })) },
      needs: claims.map(({ name }) => ({ right: 'acquire', name })),
      shortMs: leaseMs,
    }
    const checked = await this.#checker.send(intent)
    if (checked.refused || checked.answer === null) return
    if (checked.answer.status !== 200) return this.#unexpected(checked, intent)
    const results = checked.answer.json['results'] as readonly string[]
    for (const [index, ending] of endings.entries()) {
      const { fence } = claims[index] as KnownClaim
      const meant = fence === null ? null : BigInt(fence)
      const findings =
        results[index] === 'lost'
          ? lost(ending, meant, checked.endedAt)
          : results[index] === 'unknown'
            ? []
            : renewed(ending, { tenant, fence: meant, leaseMs }, 0, checked.endedAt)
      this.#checker.found(findings, describe(intent, checked.answer))
    }
  }

  async break(): Promise<void> {
    const { group } = this.#checker
    const admin = group.tenants.find(({ role }) => role === 'admin')
    const tenant = admin === undefined || this.#random.chance(0.4) ? this.tenant() : admin
    const { name } = this.#random.pick(group.names)
    const entries = this.#model.entriesOf(name).filter(({ ref }) => ref !== null)
    const ref = entries.length > 0 && this.#random.chance(0.5) ? this.#random.pick(entries).ref : null
    const breaking = beginBreak(this.#model, name, ref, performance.now())
    const body = { reason: 'stuck', ...(ref === null ? {} : { ref }) }
    const intent = {
      ...this.#intent(tenant, 'break', name, body),
      needs: [{ right: 'break', name }],
    } as Intent
    const checked = await this.#checker.send(intent)
    if (checked.refused || checked.answer === null || checked.answer.status !== 200) {
      notBroken(breaking)
      if (!checked.refused) this.#unexpected(checked, intent)
      return
    }
    const findings = broken(this.#model, breaking, checked.answer, checked.endedAt)
    this.#checker.found(findings, describe(intent, checked.answer))
  }

  #askFor(tenant: Tenant, used: UsedName): Ask {
    const random = this.#random
    const number = (this.#count += 1)
    const name = used.name
    return {
      tenant,
      name,
      id: random.chance(0.6) ? makeId(tenant, random, number) : null,
      ...pickShape(used, random),
      ttlMs: pickTtl(tenant, random),
      waitMs: 0,
      stayMs: random.chance(0.04) ? 300 : 0,
      note: pickNote(this.#checker.group, name, random),
    }
  }

  async #acquire(
    ask: Ask,
    made: { body: unknown; flaws: readonly number[]; hangUpMs?: number },
  ): Promise<void> {
    const pending = this.#model.begin(ask, performance.now())
    const tooLong = ask.tenant.maxTtlMs !== null && Math.max(ask.ttlMs, ask.stayMs) > ask.tenant.maxTtlMs
    const intent: Intent = {
      ...this.#intent(ask.tenant, 'acquire', ask.name, made.body),
      flaws: [...made.flaws, ...(tooLong ? [403] : [])],
      shortMs: ask.ttlMs,
      ...(made.hangUpMs === undefined ? {} : { hangUpMs: made.hangUpMs }),
    }
    const checked = await this.#checker.send(intent)
    const { answer, endedAt, refused } = checked
    if (answer === null) {
      if (refused) this.#model.refused(pending)
      else this.#model.hungUp(pending, endedAt)
    } else if (refused && !checked.hasNoEffect && answer.status === 401) this.#model.hungUp(pending, endedAt)
    else if (refused) this.#model.refused(pending)
    else this.#checker.found(this.#judge(pending, checked, intent), describe(intent, answer))
  }

  #judge(pending: Pending, checked: Checked, intent: Intent): readonly string[] {
    const { answer, endedAt } = checked
    if (answer === null) return []
    const code = String(answer.json['code'] ?? '')
    const { ask } = pending
    if (answer.status === 200) {
      this.#keep(ask, answer.json)
      return this.#model.granted(pending, answer, endedAt)
    }
    if (code === 'LOCKED') {
      const place = answer.json['place'] as Record<string, unknown> | null
      if (place !== null) this.#keep(ask, place)
      return this.#model.locked(pending, answer, endedAt)
    }
    if (code === 'WEIGHT_CONFLICT') return this.#model.weightConflict(pending, Number(answer.json['weight']))
    if (code === 'SHAPE_CONFLICT')
      return this.#model.shapeConflict(pending, answer.json['found'] as Partial<Shape>)
    if (code === 'SUPERSEDED' || code === 'ID_SPENT') return this.#model.superseded(pending, endedAt)
    if (code === 'TOO_MANY_CLAIMS') return this.#model.tooManyClaims(pending)
    if (code === 'QUEUE_FULL') return this.#model.queueFull(pending)
    if (code === 'TOO_MANY') return this.#model.tooManyWaiters(pending)
    if (code === 'OUTCOME_UNKNOWN') {
      this.#model.hungUp(pending, endedAt)
      return []
    }
    const isElsewhere = this.#model.isInFlightElsewhere(ask.name, ask.id)
    this.#model.refused(pending)
    if (answer.status !== 400 || !isElsewhere) this.#unexpected(checked, intent)
    return []
  }

  #unexpected({ answer, refused }: Checked, intent: Intent): void {
    if (answer === null || refused || answer.status === 504) return
    const code = String(answer.json['code'] ?? '')
    this.#checker.found(
      [`status: ${answer.status} ${code} is not an answer to this`],
      describe(intent, answer),
    )
  }

  #intent(
    tenant: Tenant,
    route: 'acquire' | 'renew' | 'release' | 'break',
    name: string,
    body: unknown,
  ): Intent {
    const needs = [{ right: 'acquire' as const, name }]
    return { route, tenant, method: 'POST', path: pathOf(name, route), body, needs }
  }

  #keep({ tenant, name }: Ask, json: Readonly<Record<string, unknown>>): void {
    const text = String(json['claim'])
    const id = readText(text)?.id ?? ''
    const fence = json['fence'] === null ? null : String(json['fence'])
    this.#known.push({ tenant, name, text, id, fence })
    if (this.#known.length > KNOWN_MAX) this.#known.shift()
  }

  #pickKnown(of?: Tenant): KnownClaim | null {
    const known = of === undefined ? this.#known : this.#known.filter(({ tenant }) => tenant === of)
    return known.length === 0 ? null : this.#random.pick(known)
  }

  /** Whether the quota can be full. The service then looks at the store before it refuses, which takes up to a second. */
  #isFull(tenant: Tenant): boolean {
    return this.#model.possibleClaims(tenant, performance.now()) >= CLAIMS_MAX
  }

  #drop(claim: KnownClaim): void {
    const index = this.#known.indexOf(claim)
    if (index >= 0) this.#known.splice(index, 1)
  }

  /** The same claim with another kind, limit and weight written into it. */
  #forged({ id, fence }: KnownClaim): string {
    const { kind, limit } = anotherShape({ kind: 'mutex', limit: 1 }, this.#random)
    const stored = fence === null ? '-' : String(BigInt(fence) / 1_024n)
    return `hf1.${KINDS[kind]}.${limit}.${limit}.60000.${id}.${stored}`
  }
}

function pickLong(tenant: Tenant): number {
  return Math.min(tenant.maxTtlMs ?? 60_000, 60_000)
}
