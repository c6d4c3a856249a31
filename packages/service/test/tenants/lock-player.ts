/** Plays the part of sequences that takes, prolongs and ends locks. Each answer goes to the model. */

import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../fuzz/random.js'
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
import { type Checker, describe, type Intent } from './checker.js'
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
import { type KnownClaim, LockSender } from './lock-sender.js'
import type { LocksModel } from './locks-model.js'
import type { Ask } from './pending.js'
import { CROWD_LIMIT, type Role, type Tenant, type UsedName } from './world.js'

const CROWDING: readonly Role[] = ['user', 'hoarder', 'fickle']
const KINDS = { mutex: 'm', semaphore: 's', 'read-write': 'rw' } as const

export class LockPlayer {
  readonly #checker: Checker
  readonly #model: LocksModel
  readonly #random: Random
  readonly #sender: LockSender
  readonly #isOver: () => boolean
  readonly #waiting = new Set<Promise<void>>()
  #count = 0

  /** `isOver`: the run has found what it looked for. */
  constructor(checker: Checker, model: LocksModel, random: Random, isOver: () => boolean) {
    this.#isOver = isOver
    this.#checker = checker
    this.#model = model
    this.#random = random
    this.#sender = new LockSender(checker, model, random)
  }

  /** Those with a token: what the others do is refused anyway. */
  tenant(): Tenant {
    const { tenants } = this.#checker.group
    const hasRights = this.#random.chance(0.93)
    return this.#random.pick(tenants.filter(({ rights }) => (rights !== null) === hasRights))
  }

  async acquire(tenant = this.tenant(), used?: UsedName): Promise<void> {
    if (this.#sender.isFull(tenant) && !this.#random.chance(0.04))
      return await this.release(this.#sender.pickKnown(tenant))
    const ask = this.#askFor(tenant, used ?? pickName(this.#checker.group, tenant, this.#random))
    const body = bodyOf(ask, this.#checker.group, this.#random)
    if (this.#random.chance(0.06)) await this.#sender.acquire(ask, spoiled(body, this.#random))
    else await this.#sender.acquire(ask, { body, flaws: [] })
  }

  /** All that several tenants may have, at one name and with notes that are as long as can be: what makes views large. */
  async crowd(look: () => Promise<void>): Promise<void> {
    const { group } = this.#checker
    const used = this.#random.pick(
      group.names.filter(({ limit, name }) => limit === CROWD_LIMIT && isShared(name)),
    )
    const shape: Shape = { kind: used.kind, limit: used.limit }
    const tenants = group.tenants.filter(({ role }) => CROWDING.includes(role))
    for (const tenant of tenants) {
      const free = CLAIMS_MAX - this.#model.possibleClaims(tenant, performance.now())
      // One of them asks for more than it may have. Such a request waits for a look at the store.
      const wanted = tenant.role === 'user' ? free + 1 : free
      for (let at = 0; at < wanted && !this.#isOver(); at += 1) {
        const note = group.marks.add(used.name, 'inspect').padEnd(1_024, '"')
        const ask = {
          ...this.#askFor(tenant, used),
          shape,
          weight: 1,
          stayMs: 0,
          ttlMs: pickLong(tenant),
          note,
        }
        await this.#acquire(ask)
      }
    }
    await this.acquireWhole(used)
    await look()
    for (const claim of this.#sender.known.filter(({ name }) => name === used.name)) await this.release(claim)
  }

  /** Asks for all permits, and is refused with the holders. */
  async acquireWhole(used: UsedName): Promise<void> {
    const { group } = this.#checker
    const tenant = this.#random.pick(
      group.tenants.filter(({ role }) => role === 'user' || role === 'hoarder'),
    )
    if (this.#sender.isFull(tenant)) await this.release(this.#sender.pickKnown(tenant))
    const shape: Shape = { kind: used.kind, limit: used.limit }
    const ask = { ...this.#askFor(tenant, used), shape, weight: used.limit, stayMs: 0 }
    const { details: _details, ...body } = bodyOf(ask, group, this.#random)
    await this.#sender.acquire(ask, { body, flaws: [] })
  }

  /** The id of a request that waits, used by another tenant under another name: neither may notice the other. */
  async hijack(): Promise<void> {
    const { group } = this.#checker
    const [holder, waiter] = ['user', 'hoarder'].map((role) =>
      group.tenants.find((each) => each.role === role),
    )
    const tenant = this.tenant()
    const used = this.#random.pick(group.names.filter(({ kind, name }) => kind === 'mutex' && isShared(name)))
    if (holder === undefined || waiter === undefined) return
    if ([holder, waiter, tenant].some((each) => this.#sender.isFull(each))) return
    const shape: Shape = { kind: 'mutex', limit: 1 }
    const base = { ...this.#askFor(holder, used), shape, weight: 1, stayMs: 0 }
    await this.#acquire({ ...base, ttlMs: pickLong(holder) })
    const id = makeId(waiter, this.#random, (this.#count += 1))
    const waiting = this.#acquire({ ...base, tenant: waiter, id, waitMs: 250, ttlMs: 900 })
    await sleep(25)
    await this.#acquire({ ...this.#askFor(tenant, pickName(group, tenant, this.#random)), stayMs: 0, id })
    await waiting
    await this.release(this.#sender.pickKnown(holder))
  }

  /** The same id again: as before, with another weight, kind, ttl or note, under another name, or by another tenant. */
  async again(): Promise<void> {
    const claim = this.#sender.pickKnown()
    if (claim === null || this.#sender.isFull(claim.tenant)) return await this.acquire()
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
    await this.#acquire(ask)
  }

  /** A reader, and then the same id as a writer: what is stored must not change for it. */
  async upgrade(): Promise<void> {
    const { group } = this.#checker
    const tenant = this.#random.pick(
      group.tenants.filter(({ role }) => role === 'user' || role === 'hoarder'),
    )
    if (this.#sender.isFull(tenant)) return await this.release(this.#sender.pickKnown(tenant))
    const used = this.#random.pick(
      group.names.filter(({ kind, name }) => kind !== 'mutex' && name.includes('/s/')),
    )
    const shape: Shape = { kind: used.kind, limit: used.limit }
    const first = { ...this.#askFor(tenant, used), shape, weight: 1, ttlMs: pickLong(tenant) }
    const ask = { ...first, id: makeId(tenant, this.#random, (this.#count += 1)) }
    await this.#acquire(ask)
    const more = { ...ask, weight: used.limit }
    await this.#acquire(more)
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
    const waiting = this.#sender.acquire(ask, made).finally(() => this.#waiting.delete(waiting))
    this.#waiting.add(waiting)
  }

  async settled(): Promise<void> {
    await Promise.all(this.#waiting)
  }

  async release(claim = this.#sender.pickKnown()): Promise<void> {
    if (claim === null) return
    const tenant = this.#random.chance(0.2) ? this.tenant() : claim.tenant
    const name = this.#random.chance(0.1)
      ? pickName(this.#checker.group, tenant, this.#random).name
      : claim.name
    const text = this.#random.chance(0.1) ? this.#forged(claim) : claim.text
    const ending = beginRelease(this.#model, name, claim.id, performance.now())
    const intent = this.#sender.intent(tenant, 'release', name, { claim: text })
    const checked = await this.#checker.send(intent)
    const { answer, endedAt } = checked
    if (checked.refused || answer === null || answer.status !== 200) {
      notEnded(ending)
      this.#sender.unexpected(checked, intent)
      return
    }
    this.#checker.found(released(ending, answer, endedAt), describe(intent, answer))
    if (this.#random.chance(0.9)) this.#sender.drop(claim)
  }

  async renew(): Promise<void> {
    const claim = this.#sender.pickKnown()
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
    const intent = { ...this.#sender.intent(tenant, 'renew', claim.name, body), flaws, shortMs: leaseMs }
    const checked = await this.#checker.send(intent)
    const { answer, endedAt } = checked
    if (checked.refused || answer === null) return
    const meant = fence === null ? null : BigInt(fence)
    const about = describe(intent, answer)
    if (answer.status === 200) {
      const remainingMs = Number(answer.json['remainingMs'])
      this.#checker.found(renewed(ending, { tenant, fence: meant, leaseMs }, remainingMs, endedAt), about)
    } else if (answer.status === 410) this.#checker.found(lost(ending, meant, endedAt), about)
    else this.#sender.unexpected(checked, intent)
  }

  /** Renews several claims with one request; one without the right refuses all of them. */
  async renewAll(): Promise<void> {
    const tenant = this.tenant()
    const leaseMs = pickTtl(tenant, this.#random)
    const claims = Array.from({ length: this.#random.between(1, 6) }, () => this.#sender.pickKnown()).filter(
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
    if (checked.answer.status !== 200) return this.#sender.unexpected(checked, intent)
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
      ...this.#sender.intent(tenant, 'break', name, body),
      needs: [{ right: 'break', name }],
    } as Intent
    const checked = await this.#checker.send(intent)
    if (checked.refused || checked.answer === null || checked.answer.status !== 200) {
      notBroken(breaking)
      if (!checked.refused) this.#sender.unexpected(checked, intent)
      return
    }
    const findings = broken(this.#model, breaking, checked.answer, checked.endedAt)
    this.#checker.found(findings, describe(intent, checked.answer))
  }

  async #acquire(ask: Ask): Promise<void> {
    await this.#sender.acquire(ask, { body: bodyOf(ask, this.#checker.group, this.#random), flaws: [] })
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

  /** The same claim with another kind, limit and weight written into it. */
  #forged({ id, fence }: KnownClaim): string {
    const { kind, limit } = anotherShape({ kind: 'mutex', limit: 1 }, this.#random)
    const stored = fence === null ? '-' : String(BigInt(fence) / 1_024n)
    return `hf1.${KINDS[kind]}.${limit}.${limit}.60000.${id}.${stored}`
  }
}

function isShared(name: string): boolean {
  return /^g\d+\/s\/mk/.test(name)
}

function pickLong(tenant: Tenant): number {
  return Math.min(tenant.maxTtlMs ?? 60_000, 60_000)
}
