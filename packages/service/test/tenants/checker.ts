/** Sends the requests of one group and checks what holds for every answer: its status, its size, and what it must not show. */

import type { Right } from '../../src/security/principal.js'
import type { Report } from './report.js'
import { type Answered, type Exchange, type Sending, textIn, type Wire } from './wire.js'
import { type Group, isKnownNow, mayAnyNow, mayNow, type Sureness, type Tenant } from './world.js'

export type Route =
  | 'acquire'
  | 'renew'
  | 'release'
  | 'batch'
  | 'inspect'
  | 'list'
  | 'break'
  | 'history'
  | 'deadlocks'
  | 'records'
  | 'tokens'
  | 'meta'
  | 'event'

const KIB = 1_024
/** What one claim can take: a note, a host and a client, each character in three bytes. */
const ONE_CLAIM = 5 * KIB

/** Bounds of answers in bytes, as docs/service.md states them, with the claim that is shown in any case. */
export const ANSWER_BYTES_MAX: Readonly<Record<Route, number>> = {
  acquire: 16 * KIB + 3 * ONE_CLAIM,
  renew: 4 * KIB,
  release: 4 * KIB,
  batch: 8 * KIB,
  inspect: KIB * KIB + 2 * ONE_CLAIM,
  list: 4 * KIB * KIB + 64 * KIB + 2 * ONE_CLAIM,
  break: KIB * KIB + ONE_CLAIM,
  history: 200 * 2 * ONE_CLAIM,
  deadlocks: 256 * KIB + ONE_CLAIM,
  records: 256 * KIB,
  tokens: 4 * KIB,
  meta: 256 * KIB,
  event: KIB * KIB + 64 * KIB + 2 * ONE_CLAIM,
}

/** One lock in a list or an event. */
export const LOCK_BYTES_MAX = 64 * KIB + 2 * ONE_CLAIM

/** What a request is, as far as the rights to it go. */
export interface Intent extends Omit<Sending, 'token'> {
  readonly route: Route
  readonly tenant: Tenant
  /** The rights that the request needs, each to a name; a name of null: to any name. Empty: a known token. */
  readonly needs: readonly { readonly right: Right; readonly name: string | null }[]
  /** Statuses with which the request must be refused for what it says. */
  readonly flaws?: readonly number[]
  /** A lease so short that it can end while the machine is busy. */
  readonly shortMs?: number
  /** No token is needed. */
  readonly isOpen?: boolean
}

/** Whether a request must be let in: `no` and `maybe` come with the statuses that refuse it. */
interface Gate {
  readonly isOpen: Sureness
  readonly refusals: ReadonlySet<number>
}

/** `refused`: the request was refused, as it had to be or could be. */
export interface Checked extends Exchange {
  readonly refused: boolean
  /** Whether it was refused before it could have an effect. Rights can be lost while a request waits. */
  readonly hasNoEffect: boolean
}

const TRAIL_MAX = 12
const BEARER = /hft_[A-Za-z0-9_-]{43}/
const IDS = /id-g\d+-[a-z]+-\d+-[a-z]+/g

export class Checker {
  readonly group: Group
  readonly report: Report
  readonly #wire: Wire
  readonly #trails = new Map<string, string[]>()

  constructor(group: Group, report: Report, wire: Wire) {
    this.group = group
    this.report = report
    this.#wire = wire
  }

  /** Says that something is impossible. The kind is the word before the colon. */
  found(findings: readonly string[], about: string): void {
    for (const finding of findings) {
      const [kind = 'other'] = finding.split(':')
      this.report.add(kind, `${finding} — ${about}`, this.#trailOf(about))
    }
  }

  /** The last requests for the name that a contradiction is about. */
  #trailOf(about: string): readonly string[] {
    for (const [name, trail] of this.#trails) if (about.includes(`/${name}/`)) return [...trail]
    return []
  }

  #follow(intent: Intent, { sentAt, endedAt, answer }: Exchange): void {
    const name = /^\/v1\/locks\/([^/?]+)/.exec(intent.path)?.[1]
    if (name === undefined) return
    const trail = this.#trails.get(name) ?? []
    this.#trails.set(name, trail)
    trail.push(`${Math.round(sentAt)}–${Math.round(endedAt)} ${describe(intent, answer).slice(0, 500)}`)
    if (trail.length > TRAIL_MAX) trail.shift()
  }

  async send(intent: Intent): Promise<Checked> {
    const { method, path, body, hangUpMs, tenant } = intent
    const sending = { method, path, token: tenant.token, ...(body === undefined ? {} : { body }) }
    const early = gateOf(intent)
    const exchange = await this.#wire.send(hangUpMs === undefined ? sending : { ...sending, hangUpMs })
    const { answer } = exchange
    this.#follow(intent, exchange)
    if (answer === null) {
      this.report.hangUps += 1
      this.report.requests += 1
      return { ...exchange, refused: early.isOpen === 'no', hasNoEffect: early.isOpen === 'no' }
    }
    const about = describe(intent, answer)
    this.report.answered(answer.status, textIn(answer.json, 'code'), intent.route, answer.text.length)
    this.#checkAlways(intent, exchange, answer, about)
    const refused = this.#isRefused(merged(early, gateOf(intent)), answer.status, about)
    return { ...exchange, refused, hasNoEffect: refused && early.isOpen === 'no' }
  }

  #isRefused({ isOpen, refusals }: Gate, status: number, about: string): boolean {
    const isRefusal = refusals.has(status)
    if (isOpen === 'no' && !isRefusal)
      this.found([`rights: ${status}, and it had to be one of ${[...refusals].join(', ')}`], about)
    if (isOpen === 'yes' && [401, 403].includes(status)) this.found([`rights: refused with ${status}`], about)
    return isOpen === 'no' || (isOpen === 'maybe' && isRefusal) || [401, 403, 413].includes(status)
  }

  #checkAlways(intent: Intent, { sentAt, endedAt }: Exchange, answer: Answered, about: string): void {
    const { route, tenant, path, body, shortMs } = intent
    const { status, text, json } = answer
    if (status >= 500) {
      const isSlow = shortMs !== undefined && endedAt - sentAt >= shortMs / 5
      if (status === 504 && isSlow) this.report.explained504 += 1
      else this.found([`server: an answer of ${status}`], about)
    }
    if (status >= 400 && typeof json['code'] !== 'string')
      this.found(['shape: a refusal without a code'], about)
    const bytes = Buffer.byteLength(text)
    if (bytes > ANSWER_BYTES_MAX[route])
      this.found([`size: ${bytes} bytes, at most ${ANSWER_BYTES_MAX[route]} for ${route}`], about)
    const request = `${decodeURIComponent(path.split('?')[0] ?? '')} ${path} ${typeof body === 'string' ? body : JSON.stringify(body ?? null)}`
    this.checkShown(text, request, tenant, about)
    if (route !== 'acquire' && text.includes('hf1.')) this.found(['leak: a claim is shown'], about)
  }

  /** Nothing may show what the tenant has no right to see, and secrets are never shown. */
  checkShown(text: string, request: string, tenant: Tenant, about: string): void {
    const leaks = this.group.marks.leaksIn(text, request, tenant)
    this.found(
      leaks.map((leak) => `leak: ${leak} is shown to ${tenant.name}`),
      about,
    )
    if (BEARER.test(text)) this.found(['leak: a bearer token is shown'], about)
    for (const [id] of text.matchAll(IDS)) {
      if (!request.includes(id)) this.found([`leak: the id ${id} is shown to ${tenant.name}`], about)
    }
  }
}

function gateOf({ tenant, needs, flaws = [], isOpen = false }: Intent): Gate {
  const refusals = new Set(flaws)
  const known: Sureness = isOpen ? 'yes' : isKnownNow(tenant)
  if (known !== 'yes') refusals.add(401)
  const rights = needs.map(({ right, name }) =>
    name === null ? mayAnyNow(tenant, right) : mayNow(tenant, right, name),
  )
  if (rights.some((sureness) => sureness !== 'yes')) refusals.add(403)
  if (known === 'no' || flaws.length > 0 || rights.includes('no')) return { isOpen: 'no', refusals }
  return { isOpen: refusals.size > 0 ? 'maybe' : 'yes', refusals }
}

/** Rights can change while a request is under way. */
function merged(early: Gate, late: Gate): Gate {
  const refusals = new Set([...early.refusals, ...late.refusals])
  return { isOpen: early.isOpen === late.isOpen ? early.isOpen : 'maybe', refusals }
}

export function describe({ tenant, method, path, body }: Intent, answer: Answered | null): string {
  const said = typeof body === 'string' ? body : JSON.stringify(body ?? null)
  const got = answer === null ? 'hung up' : `${answer.status} ${answer.text.slice(0, 400)}`
  return `${tenant.name} ${method} ${path.slice(0, 160)} ${said.slice(0, 300)} → ${got}`
}
