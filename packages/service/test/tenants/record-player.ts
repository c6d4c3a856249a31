/** Plays the part of sequences with idempotency records and single-use tokens. */

import type { Right } from '../../src/security/principal.js'
import type { Random } from '../fuzz/random.js'
import { type Checker, describe, type Intent } from './checker.js'
import { RecordModel } from './records-model.js'
import { textIn } from './wire.js'
import { type Group, may, type Tenant, type UsedScope } from './world.js'

const KEYS = ['order-1', 'order-2', 'order-3']
const RAW = 'a'.repeat(64)
const LETTERS = 'abcdefghijklmnopqrstuvwxyz'

interface IssuedToken {
  readonly token: string
  readonly purpose: string
  isUsed: boolean
}

export class RecordPlayer {
  readonly #checker: Checker
  readonly #random: Random
  readonly #records = new Map<string, RecordModel>()
  readonly #owners = new Map<string, string>()
  readonly #tokens: IssuedToken[] = []

  constructor(checker: Checker, random: Random) {
    this.#checker = checker
    this.#random = random
  }

  async play(): Promise<void> {
    const random = this.#random
    if (random.chance(0.2)) return await this.#token()
    const tenant = random.pick(this.#checker.group.tenants)
    if (random.chance(0.06)) return await this.#raw(tenant)
    const scope = this.#scope(tenant)
    const key = random.pick(KEYS)
    const act = random.pick([
      'claim',
      'claim',
      'claim',
      'finish',
      'finish',
      'read',
      'read',
      'forget',
    ] as const)
    const known = `${scope.tenant} ${key}`
    let model = this.#records.get(known)
    if (model === undefined) {
      model = new RecordModel()
      this.#records.set(known, model)
    }
    if (act === 'claim') await this.#claim(tenant, scope, key, model)
    else if (act === 'finish') await this.#finish(tenant, scope, key, model)
    else await this.#look(act, tenant, scope, key, model)
  }

  async #claim(tenant: Tenant, scope: UsedScope, key: string, model: RecordModel): Promise<void> {
    const random = this.#random
    const last = this.#owners.get(`${scope.tenant} ${key}`)
    const owner = last !== undefined && random.chance(0.3) ? last : `own-${random.text(LETTERS, 30)}`
    const leaseMs = Math.min(tenant.maxTtlMs ?? 60_000, random.pick([500, 1_000, 60_000]))
    const input = random.chance(0.9) ? 1 : 2
    const intent = this.#intent(tenant, 'claim', scope, 'acquire', {
      key,
      owner,
      leaseMs,
      input: { amount: input },
    })
    const checked = await this.#checker.send({ ...intent, shortMs: leaseMs })
    if (checked.refused || checked.answer === null) return
    if (checked.answer.status === 201) this.#owners.set(`${scope.tenant} ${key}`, owner)
    const { answer, sentAt, endedAt } = checked
    const findings = model.claimed({ owner, input, leaseMs }, answer, sentAt, endedAt)
    this.#checker.found(findings, describe(intent, answer))
  }

  async #finish(tenant: Tenant, scope: UsedScope, key: string, model: RecordModel): Promise<void> {
    const random = this.#random
    const { owner, fence } = model.owned ?? { owner: `own-${'x'.repeat(30)}`, fence: '1' }
    const isForged = random.chance(0.15)
    const state = random.pick(['completed', 'completed', 'failed', 'released'] as const)
    const name = nameOf(scope)
    const result = `{"mark":"${this.#checker.group.marks.add(name, 'acquire', 'inspect')}"}`
    const ask = { owner: isForged ? `own-${'y'.repeat(30)}` : owner, fence, state, result }
    const intent = this.#intent(tenant, 'finish', scope, 'acquire', { key, ...ask })
    const { refused, answer } = await this.#checker.send(intent)
    if (refused || answer === null) return
    this.#checker.found(model.finished(ask, answer), describe(intent, answer))
  }

  async #look(
    act: 'read' | 'forget',
    tenant: Tenant,
    scope: UsedScope,
    key: string,
    model: RecordModel,
  ): Promise<void> {
    const intent = this.#intent(tenant, act, scope, act === 'read' ? 'inspect' : 'break', { key })
    const { refused, answer } = await this.#checker.send(intent)
    if (refused || answer === null) return
    const about = describe(intent, answer)
    if (answer.status !== 200) return this.#checker.found([`status: ${answer.status} for ${act}`], about)
    const mayClaim = may(tenant.rights, 'acquire', nameOf(scope))
    if (tenant.rightsBefore !== null && act === 'read') return
    this.#checker.found(act === 'read' ? model.read(answer, mayClaim) : model.forgotten(answer), about)
  }

  /** A digest reaches the record of any tenant, so no tenant here may use one. */
  async #raw(tenant: Tenant): Promise<void> {
    const needs = ['records/', 'tokens/'].map((name) => ({ right: 'inspect' as const, name }))
    const body = { record: RAW }
    await this.#checker.send({
      route: 'records',
      tenant,
      method: 'POST',
      path: '/v1/records/read',
      body,
      needs,
    })
  }

  async #token(): Promise<void> {
    const random = this.#random
    const { group } = this.#checker
    const tenant = random.pick(group.tenants)
    const issued = random.chance(0.5) && this.#tokens.length > 0 ? random.pick(this.#tokens) : null
    if (issued === null) {
      const purpose = random.chance(0.8) ? tenant.name : random.pick(group.tenants).name
      const answer = await this.#tokenRequest(tenant, 'issue', purpose, {})
      if (answer === null) return
      if (answer.status === 201)
        this.#tokens.push({ token: textIn(answer.json, 'token'), purpose, isUsed: false })
      else this.#checker.found([`token: ${answer.status} for issue`], purpose)
      if (this.#tokens.length > 20) this.#tokens.shift()
      return
    }
    const isOther = random.chance(0.2)
    const owner = group.tenants.find(({ name }) => name === issued.purpose)
    const by = random.chance(0.7) ? (owner ?? tenant) : tenant
    const subject = isOther ? 'mallory' : 'alice'
    const answer = await this.#tokenRequest(by, 'consume', issued.purpose, { token: issued.token, subject })
    if (answer === null) return
    const about = `token of ${issued.purpose}, ${answer.status} ${answer.text.slice(0, 200)}`
    if (answer.status === 200 && isOther) this.#checker.found(['token: consumed by another subject'], about)
    if (answer.status === 200 && issued.isUsed) this.#checker.found(['token: consumed twice'], about)
    if (answer.status !== 200 && !isOther && !issued.isUsed) this.#checker.found(['token: refused'], about)
    if (answer.status === 200) issued.isUsed = true
  }

  async #tokenRequest(tenant: Tenant, act: 'issue' | 'consume', purpose: string, body: object) {
    const intent: Intent = {
      route: 'tokens',
      tenant,
      method: 'POST',
      path: `/v1/tokens/${act}`,
      body: { purpose, subject: 'alice', ...body },
      needs: [{ right: 'acquire', name: `tokens/${purpose}` }],
    }
    const { refused, answer } = await this.#checker.send(intent)
    return refused ? null : answer
  }

  #scope(tenant: Tenant): UsedScope {
    const { scopes }: Group = this.#checker.group
    const own = scopes.filter((scope) => may(tenant.rights, 'acquire', nameOf(scope)))
    return own.length > 0 && this.#random.chance(0.75) ? this.#random.pick(own) : this.#random.pick(scopes)
  }

  #intent(tenant: Tenant, act: string, scope: UsedScope, right: Right, body: object): Intent {
    return {
      route: 'records',
      tenant,
      method: 'POST',
      path: `/v1/records/${act}`,
      body: { scope, ...body },
      needs: [{ right, name: nameOf(scope) }],
    }
  }
}

function nameOf({ tenant, operation }: UsedScope): string {
  return `records/${tenant}/${operation}`
}
