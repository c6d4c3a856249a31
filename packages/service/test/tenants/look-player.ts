/** Plays the part of sequences that looks: single locks, lists, histories, deadlocks, the service itself, and event streams. */

import { get, type IncomingMessage } from 'node:http'
import { performance } from 'node:perf_hooks'
import type { Random } from '../fuzz/random.js'
import { pathOf } from '../security/running-service.js'
import { ANSWER_BYTES_MAX, type Checker, describe, type Intent, LOCK_BYTES_MAX } from './checker.js'
import { type ShownLock, viewFindings } from './ends-model.js'
import type { LocksModel } from './locks-model.js'
import { mayNow, type Role, type Tenant } from './world.js'

const STREAMS_MAX = 4

export class LookPlayer {
  readonly #checker: Checker
  readonly #model: LocksModel
  readonly #random: Random
  readonly #port: number
  readonly #streams: IncomingMessage[] = []

  constructor(checker: Checker, model: LocksModel, random: Random, port: number) {
    this.#checker = checker
    this.#model = model
    this.#random = random
    this.#port = port
  }

  async inspect(): Promise<void> {
    const tenant = this.#random.pick(this.#checker.group.tenants)
    const { name } = this.#random.pick(this.#checker.group.names)
    const needs = [{ right: 'inspect' as const, name }]
    const intent: Intent = { route: 'inspect', tenant, method: 'GET', path: pathOf(name), needs }
    const { refused, answer, sentAt, endedAt } = await this.#checker.send(intent)
    if (refused || answer === null) return
    const about = describe(intent, answer)
    if (answer.status !== 200) return this.#checker.found([`status: ${answer.status} for a look`], about)
    this.#checker.found(
      viewFindings(this.#model, answer.json as unknown as ShownLock, sentAt, endedAt),
      about,
    )
  }

  /** All pages of a list. */
  async list(role?: Role): Promise<void> {
    const { group } = this.#checker
    const tenant = group.tenants.find((each) => each.role === role) ?? this.#random.pick(group.tenants)
    const limit = this.#random.pick([1, 3, 10, 5_000])
    const prefix = this.#random.chance(0.5) ? group.prefix : ''
    const startedAt = performance.now()
    const shown: ShownLock[] = []
    let after = ''
    for (let page = 0; page < 60; page += 1) {
      const query = new URLSearchParams({ prefix, after, limit: String(limit) })
      const path = `/v1/locks?${query.toString()}`
      const intent: Intent = {
        route: 'list',
        tenant,
        method: 'GET',
        path,
        needs: [{ right: 'inspect', name: null }],
      }
      const { refused, answer } = await this.#checker.send(intent)
      if (refused || answer === null || answer.status === 429) return
      const about = describe(intent, answer)
      if (answer.status !== 200) return this.#checker.found([`status: ${answer.status} for a list`], about)
      const { locks, next } = answer.json as unknown as { locks: readonly ShownLock[]; next: string | null }
      this.#checker.found(pageFindings(locks, limit, after, tenant), about)
      shown.push(...locks)
      if (next === null) return this.#compare(tenant, shown, startedAt, about)
      after = next
    }
  }

  #compare(tenant: Tenant, shown: readonly ShownLock[], startedAt: number, about: string): void {
    const endedAt = performance.now()
    const { group } = this.#checker
    const byName = new Map(shown.map((lock) => [lock.name, lock]))
    for (const { name } of group.names) {
      if (mayNow(tenant, 'inspect', name) !== 'yes') continue
      const none = { name, shape: null, holders: [], waiters: [], holdersTotal: 0, waitersTotal: 0 }
      this.#checker.found(viewFindings(this.#model, byName.get(name) ?? none, startedAt, endedAt), about)
    }
  }

  async other(): Promise<void> {
    const tenant = this.#random.pick(this.#checker.group.tenants)
    const { name } = this.#random.pick(this.#checker.group.names)
    const any = [{ right: 'inspect' as const, name: null }]
    const intents: readonly Intent[] = [
      {
        route: 'history',
        tenant,
        method: 'GET',
        path: pathOf(name, 'history'),
        needs: [{ right: 'inspect', name }],
      },
      { route: 'deadlocks', tenant, method: 'GET', path: '/v1/deadlocks', needs: any },
      { route: 'meta', tenant, method: 'GET', path: '/v1/store', needs: [] },
      { route: 'meta', tenant, method: 'GET', path: '/metrics', needs: [{ right: 'inspect', name: '' }] },
      { route: 'meta', tenant, method: 'GET', path: '/healthz', needs: [], isOpen: true },
      { route: 'meta', tenant, method: 'GET', path: '/v1/nothing', needs: [], flaws: [404, 401] },
    ]
    const intent = this.#random.pick(intents)
    const { refused, answer } = await this.#checker.send(intent)
    if (!refused && answer?.status !== 200)
      this.#checker.found([`status: ${answer?.status} for a look`], describe(intent, answer))
  }

  /** Opens an event stream, which is read to its end or left unread. */
  async listen(role?: Role): Promise<void> {
    if (this.#streams.length >= STREAMS_MAX) this.#streams.shift()?.destroy()
    const { tenants } = this.#checker.group
    const tenant = tenants.find((each) => each.role === role) ?? this.#random.pick(tenants)
    const isRead = role !== undefined || this.#random.chance(0.7)
    const headers = tenant.token === null ? {} : { authorization: `Bearer ${tenant.token}` }
    const options = { host: '127.0.0.1', port: this.#port, path: '/v1/events', headers, agent: false }
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      get(options, resolve).once('error', reject)
    })
    response.on('error', () => {})
    this.#checker.report.answered(response.statusCode ?? 0, '', 'event', 0)
    const isAllowed = tenant.rights?.some(({ can }) => can.includes('inspect')) ?? false
    const isOpen = response.statusCode === 200
    if (isOpen !== isAllowed && tenant.rightsBefore === null && response.statusCode !== 429)
      this.#checker.found([`rights: a stream was answered with ${response.statusCode}`], tenant.name)
    if (!isOpen) {
      response.resume()
      return
    }
    this.#streams.push(response)
    if (isRead) this.#read(response, tenant)
  }

  close(): void {
    for (const stream of this.#streams) stream.destroy()
  }

  #read(response: IncomingMessage, tenant: Tenant): void {
    let text = ''
    response.setEncoding('utf8')
    response.on('data', (chunk: string) => {
      text += chunk
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        this.#checkEvent(text.slice(0, end), tenant)
        text = text.slice(end + 2)
      }
      if (text.length > ANSWER_BYTES_MAX.event)
        this.#checker.found(['size: an event without end'], tenant.name)
    })
  }

  #checkEvent(block: string, tenant: Tenant): void {
    const { report, group } = this.#checker
    report.events += 1
    const about = `event to ${tenant.name}: ${block.slice(0, 300)}`
    const bytes = Buffer.byteLength(block)
    report.largest.set('event', Math.max(report.largest.get('event') ?? 0, bytes))
    if (bytes > ANSWER_BYTES_MAX.event) this.#checker.found([`size: an event of ${bytes} bytes`], about)
    this.#checker.checkShown(block, '', tenant, about)
    const data = /^event: stats\ndata: (.*)$/.exec(block)?.[1]
    if (data === undefined || tenant.rightsBefore !== null) return
    const visible = group.names.filter(({ name }) => mayNow(tenant, 'inspect', name) !== 'no').length
    const { locks } = JSON.parse(data) as { locks: number }
    if (locks > visible)
      this.#checker.found([`leak: ${locks} locks are counted, ${visible} can be seen`], about)
  }
}

function pageFindings(
  locks: readonly ShownLock[],
  limit: number,
  after: string,
  tenant: Tenant,
): readonly string[] {
  const findings: string[] = []
  if (locks.length > limit) findings.push(`size: ${locks.length} locks on a page of ${limit}`)
  let last = after
  for (const lock of locks) {
    if (last !== '' && Buffer.compare(Buffer.from(lock.name), Buffer.from(last)) <= 0)
      findings.push('list: names are not in order')
    last = lock.name
    const bytes = Buffer.byteLength(JSON.stringify(lock))
    if (bytes > LOCK_BYTES_MAX)
      findings.push(`size: one lock of ${bytes} bytes, at most ${LOCK_BYTES_MAX} in a list`)
    if (mayNow(tenant, 'inspect', lock.name) === 'no')
      findings.push(`leak: ${lock.name} is listed for ${tenant.name}`)
  }
  return findings
}
