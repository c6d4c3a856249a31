/** Random histories of steps, taken on the script of the line and on the rule, which must agree. */

import { createHash } from 'node:crypto'
import type { Redis } from 'ioredis'
import { linkOf } from '../../src/backends/redis/driver.js'
import { LineBackend } from '../../src/backends/redis/line.js'
import { source } from '../../src/backends/redis/line-script.js'
import type { RedisLink } from '../../src/backends/redis/link.js'
import type { Claim, Renewal, RenewRequest, Shape, Sink, Verdict } from '../../src/core/backend.js'
import { refOf } from '../../src/core/names.js'
import { claimOf } from '../support/claims.js'
import { LineModel, randomOf } from '../support/line-model.js'
import { expectSame } from '../support/same.js'

export const FUTURE_US = Date.UTC(2090, 0, 1) * 1_000

/**
 * The server's clock in the hands of the test: the script is the real one but for the one call that reads the time. It
 * runs in a far future, so that no key expires before its line says so.
 */
export class TimedLink {
  readonly sha: string
  readonly script: string
  nowUs: number
  /** How many steps were answered by a text and how many by a sorted set. */
  readonly answered = { short: 0, long: 0 }
  readonly #inner: RedisLink

  constructor(inner: RedisLink, nowUs: number, change: (script: string) => string = (script) => script) {
    this.#inner = inner
    this.nowUs = nowUs
    const parts = change(source).split("redis.call('TIME')")
    expectSame(parts.length, 2)
    this.script = parts.join('{ ARGV[#ARGV - 1], ARGV[#ARGV] }')
    this.sha = createHash('sha1').update(this.script).digest('hex')
  }

  get nowMs(): number {
    return Math.floor(this.nowUs / 1_000)
  }

  asLink(): RedisLink {
    const time = (): string[] => [String(Math.floor(this.nowUs / 1_000_000)), String(this.nowUs % 1_000_000)]
    const inner = this.#inner
    return {
      isCluster: inner.isCluster,
      keyPrefix: inner.keyPrefix,
      masters: () => inner.masters(),
      subscribe: (channel, events) => inner.subscribe(channel, events),
      sendTogether: (key, commands) => inner.sendTogether(key, commands),
      close: () => inner.close(),
      send: async (key, [command, , ...rest]) => {
        const script = command === 'EVALSHA' ? this.sha : this.script
        const answer = await inner.send(key, [command as string, script, ...rest, ...time()])
        for (const each of [answer].flat())
          this.answered[String(each).startsWith('~') ? 'long' : 'short'] += 1
        return answer
      },
    }
  }
}

let runs = 0

/** Every run has keys of its own. */
export function lineOver(link: RedisLink): { backend: LineBackend; prefix: string; channel: string } {
  runs += 1
  const prefix = `run${runs}:`
  return { backend: lineAt(link, prefix, 'push'), prefix, channel: `${prefix}push` }
}

export function lineAt(
  link: RedisLink,
  prefix: string,
  channel: string,
  channelPrefix = prefix,
): LineBackend {
  return new LineBackend(link, {
    prefix,
    channelPrefix,
    channel,
    fenceMemoryMs: 60_000,
    waitReplicas: 0,
    waitReplicasMs: 1_000,
  })
}

const SHAPES: readonly Shape[] = [
  { kind: 'mutex', limit: 1 },
  { kind: 'semaphore', limit: 3 },
  { kind: 'read-write', limit: 5 },
]
const OTHER_SHAPE: Shape = { kind: 'semaphore', limit: 9 }

/** How many there are of what, and how fast time goes by. */
export interface Scale {
  readonly histories: number
  /** How many claims want one resource. */
  readonly claims: number
  /** The time jumps after one round of so many. */
  readonly jumpEvery: number
  /** Of this many that leave, one really does; the others stay, so that queues get long. */
  readonly leaveEvery: number
}

/** One resource and the claims that want it, driven by its own dice. All histories share one clock. */
class History {
  readonly resource: string
  readonly #random: (below: number) => number
  readonly #claims: Claim[]
  readonly #shape: Shape
  readonly #fences = new Map<string, bigint | null>()
  /** Who was told, or answered, to be admitted. */
  readonly #informed = new Set<string>()
  readonly #model: LineModel
  readonly #scale: Scale

  constructor(index: number, seed: number, model: LineModel, scale: Scale) {
    this.#random = randomOf(seed * 1_000 + index)
    this.#model = model
    this.#scale = scale
    this.resource = `h${seed}-${index}`
    this.#shape = SHAPES[this.#random(SHAPES.length)] as Shape
    this.#claims = Array.from({ length: scale.claims }, (_, each) => this.#fresh(each))
  }

  #fresh(index: number): Claim {
    const random = this.#random
    return claimOf(this.resource, {
      shape: random(25) === 0 ? OTHER_SHAPE : this.#shape,
      weight: 1 + random(this.#shape.limit),
      ttlMs: 200 + random(2_000),
      note: random(2) === 0 ? null : `a note, "quoted" ${index}`,
    })
  }

  admitted(now: number): ReadonlyMap<string, bigint | null> {
    const { holders } = this.#model.view(this.resource, now)
    return new Map(holders.map(({ ref, fence }) => [ref, fence]))
  }

  /** One random step, on the model and on the server, which must agree. Gives whom the server must have told. */
  async step(backend: LineBackend, now: number): Promise<Told> {
    const before = this.admitted(now)
    const self = await this.#act(backend, now)
    const model = this.#model.view(this.resource, now)
    expectSame(withoutAges(await backend.inspect(this.resource)), withoutAges(model))
    // An attempt also notifies the claims that are admitted because claims ahead of them have expired.
    const fresh = [...this.admitted(now)].filter(([ref, fence]) =>
      self === null ? !before.has(ref) : !this.#informed.has(`${ref} ${fence}`),
    )
    for (const [ref, fence] of fresh) this.#informed.add(`${ref} ${fence}`)
    return {
      granted: fresh.filter(([ref]) => ref !== self).map(([ref, fence]) => `${ref} ${fence}`),
      wanted:
        model.waiters.length > 0 ? [...this.admitted(now).keys()].filter((ref) => !before.has(ref)) : [],
    }
  }

  async #act(backend: LineBackend, now: number): Promise<string | null> {
    const random = this.#random
    const index = random(this.#claims.length)
    let claim = this.#claims[index] as Claim
    const what = random(10)
    if (what < 5) {
      if (random(6) === 0) {
        claim = this.#claims[index] = { ...claim, weight: 1 + random(this.#shape.limit) }
      }
      await this.#attempt(backend, claim, now)
      return refOf(claim.id)
    }
    if (what < 7) {
      await this.#renew(backend, now)
      return null
    }
    if (random(this.#scale.leaveEvery) > 0) return null
    const ref = refOf(claim.id)
    const removed = this.#model.remove(claim.resource, (place) => place.id === claim.id, now)
    if (what < 9) expectSame(await backend.release(claim), removed ? 'released' : 'gone')
    else expectSame(await backend.evict(claim.resource, ref), removed ? 'evicted' : 'gone')
    // A released claim is over; the next request has a new id.
    if (random(2) === 0) this.#claims[index] = this.#fresh(index)
    return null
  }

  async #attempt(backend: LineBackend, claim: Claim, now: number): Promise<void> {
    const random = this.#random
    const patience = { waitMs: random(3) === 0 ? 0 : 1_000, leaseMs: 100 + random(500) }
    const expected = this.#model.attempt(claim, patience, now)
    const firstEnd = this.#firstEnd(now)
    expectSame(orFirstEnd(await backend.attempt(claim, patience), expected, firstEnd), expected)
    // Now and then the old one is kept, as by a process that does not know of its new place yet.
    if ('fence' in expected && random(5) > 0) this.#fences.set(claim.id, expected.fence)
  }

  async #renew(backend: LineBackend, now: number): Promise<void> {
    const random = this.#random
    const from = random(this.#claims.length - 2)
    const requests = this.#claims
      .slice(from, from + random(5))
      .map((each) => ({ claim: each, fence: this.#fences.get(each.id) ?? null, leaseMs: random(900) }))
    const expected = requests.map((request) => this.#model.renew(request, now))
    expectSame(await renewedBy(backend, requests), expected)
  }

  #firstEnd(now: number): number {
    const { holders, waiters } = this.#model.view(this.resource, now)
    return Math.min(...[...holders, ...waiters].map(({ remainingMs }) => remainingMs ?? 0))
  }

  /** Often exactly to the end of something, which is where an off-by-one lives. */
  jumpMs(now: number): number {
    const end = this.#model.view(this.resource, now).holders[0]?.remainingMs
    return this.#random(3) === 0 && end !== undefined && end !== null ? end : this.#random(400)
  }
}

interface Told {
  /** Who is admitted by a step of another claim. */
  readonly granted: readonly string[]
  /** Who is admitted while others wait. */
  readonly wanted: readonly string[]
}

/** A long queue tells the end of its first claim, whichever that is, and not that of the first one ahead. */
function orFirstEnd(actual: Verdict, expected: Verdict, firstEnd: number): Verdict {
  if (actual.kind !== 'waiting' || expected.kind !== 'waiting' || actual.retryAfterMs !== firstEnd)
    return actual
  return { ...actual, retryAfterMs: expected.retryAfterMs }
}

/** How often a renewal is asked for again before what is open counts as the answer. */
const RENEW_TRIES = 50

/**
 * Answers that are long after the first one are left open, which on a busy machine some are. They are asked for again, as
 * the keeper does; at one and the same time of the server, a second renewal changes nothing.
 */
async function renewedBy(
  backend: LineBackend,
  requests: readonly RenewRequest[],
): Promise<readonly Renewal[]> {
  for (let tries = 1; ; tries += 1) {
    const answers = await backend.renew(requests)
    if (tries === RENEW_TRIES || !answers.includes('unknown')) return answers
  }
}

/** The age of a claim is read off its fence, which runs ahead of the clock after the clock was set back. */
function withoutAges(view: Awaited<ReturnType<LineBackend['inspect']>>): unknown {
  const strip = (claims: typeof view.holders): unknown => claims.map((claim) => ({ ...claim, ageMs: 0 }))
  return { ...view, holders: strip(view.holders), waiters: strip(view.waiters) }
}

export interface Comparison extends Scale {
  readonly steps: number
  readonly seed: number
  readonly change?: (script: string) => string
}

/** Takes the steps, and gives how many of them were answered by a text and how many by a sorted set. */
export async function compare(client: Redis, comparison: Comparison): Promise<TimedLink['answered']> {
  const { steps, seed, change, histories: count, jumpEvery } = comparison
  const timed = new TimedLink(linkOf(client), FUTURE_US, change)
  const told = { granted: new Set<string>(), wanted: new Set<string>() }
  let hasEnded: () => void
  const end = new Promise<void>((resolve) => {
    hasEnded = resolve
  })
  const sink: Sink = {
    granted: (id, fence) => (id === 'end' ? hasEnded() : void told.granted.add(`${refOf(id)} ${fence}`)),
    wanted: (id) => void told.wanted.add(refOf(id)),
    hint: () => {},
    lost: () => {},
  }
  const { backend, channel } = lineOver(timed.asLink())
  await backend.open(sink)
  const model = new LineModel((last) => {
    const clock = BigInt(timed.nowUs)
    return last + 1n > clock ? last + 1n : clock
  })
  const random = randomOf(seed)
  const histories = Array.from({ length: count }, (_, index) => new History(index, seed, model, comparison))
  const mustBeTold: Told[] = []
  const mayBeTold = new Set<string>()
  try {
    for (let round = 0; round < steps / count; round += 1) {
      const now = timed.nowMs
      mustBeTold.push(...(await Promise.all(histories.map((history) => history.step(backend, now)))))
      for (const history of histories) {
        for (const [ref, fence] of history.admitted(now)) mayBeTold.add(`${ref} ${fence}`)
      }
      if (random(jumpEvery) === 0) timed.nowUs += (histories[random(count)] as History).jumpMs(now) * 1_000
      timed.nowUs += random(3)
    }
    await client.publish(channel, 'g end 0 0')
    await end
    const untold = mustBeTold.flatMap(({ granted }) => granted.filter((each) => !told.granted.has(each)))
    const unwanted = mustBeTold.flatMap(({ wanted }) => wanted.filter((each) => !told.wanted.has(each)))
    const wrong = [...told.granted].filter((each) => !mayBeTold.has(each))
    expectSame({ untold, unwanted, wrong }, { untold: [], unwanted: [], wrong: [] })
  } finally {
    await backend.close()
  }
  return timed.answered
}
