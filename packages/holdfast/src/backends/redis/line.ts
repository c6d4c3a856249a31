/**
 * The line in Redis. The rule runs in `line.lua`, on the server's clock; this side shapes the questions, keeps the
 * channel open on which grants are pushed, and reads the answers.
 */

import type {
  Backend,
  Claim,
  Eviction,
  Guarantees,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  ResourceView,
  Sink,
  Verdict,
} from '../../core/backend.js'
import { OutcomeUnknownError } from '../../core/errors.js'
import { LIMIT_MAX } from '../../core/line.js'
import { NAME_BYTES_MAX, refOf } from '../../core/names.js'
import { writeWho } from '../shared/who.js'
import { type ReadLine, readLine, readVerdict } from './answers.js'
import { renewGraceMs, settledSoon } from './clock.js'
import { damagedKey, hungNode, isDamaged, redisError } from './errors.js'
import type { RedisLink, Subscription } from './link.js'
import { renewalGroups } from './renewals.js'
import { type LockType, scanNames } from './scan.js'
import { type Answer, Steps, type StepsOptions } from './steps.js'

export const LINE_GUARANTEES: Guarantees = {
  keptBy: 'lease',
  safety: 'single-node',
  // Fences come from the server's clock and the last one seen; a failover to a server whose clock is behind can lose both.
  fencing: 'best-effort',
  waiting: 'push',
  fair: true,
  weights: 'any',
  shows: 'claims',
  limitMax: LIMIT_MAX,
  clock: 'server-wall',
  ttlMinMs: 50,
  ttlMaxMs: 2 ** 31 - 1,
  ttlStepMs: 1,
  nameBytesMax: NAME_BYTES_MAX,
}

export interface LineOptions extends StepsOptions {
  /** The rest of the name of the channel that grants for this client are pushed to. */
  readonly channel: string
}

/** A queue is a text, and a sorted set once it is long (long-line.lua). Queues grow more often than they shrink that far. */
const LINE_TYPES: readonly LockType[] = ['string', 'zset']
/** How many resources one step of a listing looks at. */
const LIST_NAMES = 64

export class LineBackend implements Backend {
  readonly name = 'redis'
  readonly guarantees = LINE_GUARANTEES
  readonly #link: RedisLink
  readonly #options: LineOptions
  readonly #steps: Steps
  /** The claims that wait, so that a subscription which was interrupted knows whom to wake. */
  readonly #waiting = new Map<string, string>()
  #sink: Sink | null = null
  #subscription: Subscription | null = null
  #isClosed = false
  #who: { readonly claim: Claim; readonly text: string } | null = null

  constructor(link: RedisLink, options: LineOptions) {
    this.#link = link
    this.#options = options
    this.#steps = new Steps(link, options)
  }

  async open(sink: Sink): Promise<void> {
    this.#sink = sink
    try {
      const subscription = await this.#link.subscribe(this.#options.channelPrefix + this.#options.channel, {
        message: (text) => this.#heard(text),
        restored: () => this.#wakeAll(),
      })
      if (this.#isClosed) return await subscription.close()
      this.#subscription = subscription
      // The first command shows whether this server can be used at all.
      await this.#steps.run('', 'v')
    } catch (error) {
      throw redisError(error)
    }
  }

  async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const { id, resource, shape, weight, ttlMs } = claim
    const { waitMs, leaseMs } = patience
    const { text, unconfirmed } = await this.#steps.run(
      resource,
      `a ${id} ${shape.kind} ${shape.limit} ${weight} ${ttlMs} ${ttlMs + this.#options.fenceMemoryMs} ` +
        `${waitMs > 0 ? 1 : 0} ${leaseMs} ${this.#whoOf(claim)}`,
      true,
    )
    const { verdict, isWanted } = readVerdict(text)
    if (verdict.kind === 'waiting') this.#waiting.set(id, resource)
    else this.#waiting.delete(id)
    if (unconfirmed !== null && (verdict.kind === 'granted' || verdict.kind === 'waiting')) {
      // A place that was not confirmed is asked for again; a grant is taken back, so that nobody stands behind a ghost.
      if (verdict.kind === 'granted') await this.#takeBack(claim)
      throw unconfirmed
    }
    if (isWanted) this.#sink?.wanted(id)
    return verdict
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const groups = renewalGroups(requests)
    const calls = groups.map((group) => this.#steps.run(group.resource, group.step(), true))
    // One node of a cluster that is down, or hangs, must not cost the claims that live on the others.
    const graceMs = renewGraceMs(requests.map(({ leaseMs }) => leaseMs))
    const answers = await settledSoon(calls, graceMs, hungNode)
    const first = answers[0]
    if (first?.status === 'rejected' && answers.every(({ status }) => status === 'rejected'))
      throw first.reason
    const renewals: Renewal[] = requests.map(() => 'unknown')
    for (const [index, group] of groups.entries()) {
      const answer = answers[index] as PromiseSettledResult<Answer>
      for (const { at, request, state, isAdmitted } of group.read(answer)) {
        renewals[at] = state
        if (isAdmitted) this.#admitted(request)
      }
    }
    return renewals
  }

  async release({ id, resource }: Claim): Promise<Release> {
    this.#waiting.delete(id)
    const { text } = await this.#steps.run(resource, `x ${id}`)
    return text === '1' ? 'released' : 'gone'
  }

  async inspect(resource: string): Promise<ResourceView> {
    return (await this.#look(resource)).view
  }

  async *list(prefix: string): AsyncGenerator<ResourceView, void, void> {
    const names = await scanNames(this.#link, this.#options.prefix, prefix, LINE_TYPES)
    for (let from = 0; from < names.length; from += LIST_NAMES) {
      const looks = names.slice(from, from + LIST_NAMES).map((name) => this.#lookUnlessDamaged(name))
      for (const look of await Promise.all(looks))
        if (look !== null && look.view.shape !== null) yield look.view
    }
  }

  async evict(resource: string, ref: string): Promise<Eviction> {
    const { claims } = await this.#look(resource)
    const found = claims.find(({ id }) => refOf(id) === ref)
    if (found === undefined) return 'gone'
    const { text } = await this.#steps.run(resource, `x ${found.id}`)
    return text === '1' ? 'evicted' : 'gone'
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const subscription = this.#subscription
    this.#subscription = null
    this.#sink = null
    this.#waiting.clear()
    await subscription?.close()
    await this.#link.close()
  }

  /** That it may not have been taken back is more than that it was not confirmed: then it may stand. */
  async #takeBack(claim: Claim): Promise<void> {
    try {
      await this.release(claim)
    } catch (cause) {
      throw new OutcomeUnknownError(
        'A grant that the replicas did not confirm may not have been taken back.',
        {
          resource: claim.resource,
          backend: this.name,
          cause,
        },
      )
    }
  }

  /** null where the key holds something else: one damaged key must not hide all others from a listing. */
  async #lookUnlessDamaged(resource: string): Promise<ReadLine | null> {
    try {
      return await this.#look(resource)
    } catch (error) {
      if (isDamaged(error)) return null
      throw error
    }
  }

  async #look(resource: string): Promise<ReadLine> {
    const { text } = await this.#steps.run(resource, 'v')
    try {
      return readLine(resource, text)
    } catch (error) {
      throw damagedKey(resource, error)
    }
  }

  /** Where to push, and who it is: the same for all claims of a client, most of the time. */
  #whoOf(claim: Claim): string {
    const last = this.#who
    if (last !== null && last.claim.owner === claim.owner && last.claim.note === claim.note) return last.text
    const text = `${this.#options.channel} ${writeWho(claim.owner, claim.note)}`
    this.#who = { claim, text }
    return text
  }

  /** `g <id> <fence> <wanted>`: admitted. `w <id>`: somebody waits behind it. Anything else is nobody's business. */
  #heard(message: string): void {
    const [what, id, fence, wanted] = message.split(' ')
    if (id === undefined) return
    if (what === 'w' || wanted === '1') this.#sink?.wanted(id)
    if (what !== 'g' || fence === undefined || !/^\d+$/.test(fence)) return
    this.#waiting.delete(id)
    this.#sink?.granted(id, BigInt(fence))
  }

  /** A renewal says that a claim is admitted. If it still waits here, the message that should have told it was lost. */
  #admitted({ claim: { id }, fence }: RenewRequest): void {
    if (this.#waiting.delete(id)) this.#sink?.granted(id, fence)
  }

  #wakeAll(): void {
    for (const resource of new Set(this.#waiting.values())) this.#sink?.hint(resource)
  }
}
