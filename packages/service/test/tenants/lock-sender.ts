/** Sends requests to acquire, lets the model judge the answers, and remembers the claims that were granted. */

import { performance } from 'node:perf_hooks'
import type { Random } from '../fuzz/random.js'
import { pathOf } from '../security/running-service.js'
import { CLAIMS_MAX } from './asks.js'
import { type Checked, type Checker, describe, type Intent } from './checker.js'
import { readText, type Shape } from './entries.js'
import type { LocksModel } from './locks-model.js'
import type { Ask, Pending } from './pending.js'
import { textIn } from './wire.js'
import type { Tenant } from './world.js'

/** A claim text that a tenant has, or that another one has got hold of. */
export interface KnownClaim {
  readonly tenant: Tenant
  readonly name: string
  readonly text: string
  readonly id: string
  readonly fence: string | null
}

const KNOWN_MAX = 60

export class LockSender {
  readonly known: KnownClaim[] = []
  readonly #checker: Checker
  readonly #model: LocksModel
  readonly #random: Random

  constructor(checker: Checker, model: LocksModel, random: Random) {
    this.#checker = checker
    this.#model = model
    this.#random = random
  }

  async acquire(
    ask: Ask,
    made: { body: unknown; flaws: readonly number[]; hangUpMs?: number },
  ): Promise<void> {
    const pending = this.#model.begin(ask, performance.now())
    const tooLong = ask.tenant.maxTtlMs !== null && Math.max(ask.ttlMs, ask.stayMs) > ask.tenant.maxTtlMs
    const intent: Intent = {
      ...this.intent(ask.tenant, 'acquire', ask.name, made.body),
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
    const code = textIn(answer.json, 'code')
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
    if (code === 'WEIGHT_CONFLICT')
      return this.#model.weightConflict(pending, Number(answer.json['weight']), endedAt)
    if (code === 'SHAPE_CONFLICT')
      return this.#model.shapeConflict(pending, answer.json['found'] as Partial<Shape>)
    if (code === 'SUPERSEDED' || code === 'ID_SPENT') return this.#model.superseded(pending, code, endedAt)
    if (code === 'TOO_MANY_CLAIMS') return this.#model.tooManyClaims(pending)
    if (code === 'QUEUE_FULL') return this.#model.queueFull(pending)
    if (code === 'TOO_MANY') return this.#model.tooManyWaiters(pending)
    if (code === 'OUTCOME_UNKNOWN') {
      this.#model.hungUp(pending, endedAt)
      return []
    }
    const isElsewhere = this.#model.isInFlightElsewhere(ask.name, ask.id)
    this.#model.refused(pending)
    if (answer.status !== 400 || !isElsewhere) this.unexpected(checked, intent)
    return []
  }

  unexpected({ answer, refused }: Checked, intent: Intent): void {
    if (answer === null || refused || answer.status === 504) return
    const code = textIn(answer.json, 'code')
    this.#checker.found(
      [`status: ${answer.status} ${code} is not an answer to this`],
      describe(intent, answer),
    )
  }

  intent(
    tenant: Tenant,
    route: 'acquire' | 'renew' | 'release' | 'break',
    name: string,
    body: unknown,
  ): Intent {
    const needs = [{ right: 'acquire' as const, name }]
    return { route, tenant, method: 'POST', path: pathOf(name, route), body, needs }
  }

  #keep({ tenant, name }: Ask, json: Readonly<Record<string, unknown>>): void {
    const text = textIn(json, 'claim')
    const id = readText(text)?.id ?? ''
    const fence = json['fence'] === null ? null : textIn(json, 'fence')
    this.known.push({ tenant, name, text, id, fence })
    if (this.known.length > KNOWN_MAX) this.known.shift()
  }

  pickKnown(of?: Tenant): KnownClaim | null {
    const known = of === undefined ? this.known : this.known.filter(({ tenant }) => tenant === of)
    return known.length === 0 ? null : this.#random.pick(known)
  }

  /** Whether the quota can be full. The service then looks at the store before it refuses, which takes up to a second. */
  isFull(tenant: Tenant): boolean {
    return this.#model.possibleClaims(tenant, performance.now()) >= CLAIMS_MAX
  }

  drop(claim: KnownClaim): void {
    const index = this.known.indexOf(claim)
    if (index >= 0) this.known.splice(index, 1)
  }
}
