// @module-tag exclusion
import { createHash } from 'node:crypto'
import { startRedis } from 'holdfast-servers'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { linkOf } from '../../src/backends/redis/driver.js'
import { LineBackend } from '../../src/backends/redis/line.js'
import { source } from '../../src/backends/redis/line.lua'
import type { RedisLink } from '../../src/backends/redis/link.js'
import type { Claim, Renewal, RenewRequest, Shape, Sink } from '../../src/core/backend.js'
import { refOf } from '../../src/core/names.js'
import { claimOf, NO_SINK } from '../support/claims.js'
import { LineModel, randomOf } from '../support/line-model.js'
import { expectSame } from '../support/same.js'

/**
 * The server's clock in the hands of the test: the script is the real one but for the one call that reads the time. It
 * runs in a far future, so that no key expires before its line says so.
 */
class TimedLink {
  readonly sha: string
  readonly script: string
  nowUs: number
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
      send: (key, [command, , ...rest]) => {
        const script = command === 'EVALSHA' ? this.sha : this.script
        return inner.send(key, [command as string, script, ...rest, ...time()])
      },
    }
  }
}

const SHAPES: readonly Shape[] = [
  { kind: 'mutex', limit: 1 },
  { kind: 'semaphore', limit: 3 },
  { kind: 'read-write', limit: 5 },
]
const HISTORIES = 64
const OTHER_SHAPE: Shape = { kind: 'semaphore', limit: 9 }
const FUTURE_US = Date.UTC(2090, 0, 1) * 1_000

/** One resource and the claims that want it, driven by its own dice. All histories share one clock. */
class History {
  readonly resource: string
  readonly #random: (below: number) => number
  readonly #claims: Claim[]
  readonly #shape: Shape
  readonly #fences = new Map<string, bigint | null>()
  readonly #model: LineModel

  constructor(index: number, seed: number, model: LineModel) {
    this.#random = randomOf(seed * 1_000 + index)
    this.#model = model
    this.resource = `h${seed}-${index}`
    this.#shape = SHAPES[this.#random(SHAPES.length)] as Shape
    this.#claims = Array.from({ length: 6 }, (_, each) => this.#fresh(each))
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
  async step(backend: LineBackend, now: number): Promise<readonly string[]> {
    const before = this.admitted(now)
    const self = await this.#act(backend, now)
    const after = this.admitted(now)
    const view = await backend.inspect(this.resource)
    expectSame(withoutAges(view), withoutAges(this.#model.view(this.resource, now)))
    return [...after]
      .filter(([ref]) => !before.has(ref) && ref !== self)
      .map(([ref, fence]) => `${ref} ${fence}`)
  }

  async #act(backend: LineBackend, now: number): Promise<string | null> {
    const random = this.#random
    const model = this.#model
    const index = random(this.#claims.length)
    let claim = this.#claims[index] as Claim
    const what = random(10)
    if (what < 5) {
      const patience = { waitMs: random(3) === 0 ? 0 : 1_000, leaseMs: 100 + random(500) }
      if (random(6) === 0) {
        claim = this.#claims[index] = { ...claim, weight: 1 + random(this.#shape.limit) }
      }
      const expected = model.attempt(claim, patience, now)
      expectSame(await backend.attempt(claim, patience), expected)
      // Now and then the old one is kept, as by a process that does not know of its new place yet.
      if ('fence' in expected && random(5) > 0) this.#fences.set(claim.id, expected.fence)
      return refOf(claim.id)
    }
    if (what < 7) {
      const requests = this.#claims
        .slice(random(3), 3 + random(4))
        .map((each) => ({ claim: each, fence: this.#fences.get(each.id) ?? null, leaseMs: random(900) }))
      const expected = requests.map((request) => model.renew(request, now))
      expectSame(await renewedBy(backend, requests), expected)
      return null
    }
    const ref = refOf(claim.id)
    const removed = model.remove(claim.resource, (place) => place.id === claim.id, now)
    if (what < 9) expectSame(await backend.release(claim), removed ? 'released' : 'gone')
    else expectSame(await backend.evict(claim.resource, ref), removed ? 'evicted' : 'gone')
    // A claim that was released is over; whoever comes next has a new id.
    if (random(2) === 0) this.#claims[index] = this.#fresh(index)
    return null
  }

  /** Often exactly to the end of something, which is where an off-by-one lives. */
  jumpMs(now: number): number {
    const end = this.#model.view(this.resource, now).holders[0]?.remainingMs
    return this.#random(3) === 0 && end !== undefined && end !== null ? end : this.#random(400)
  }
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

let runs = 0
let server: Awaited<ReturnType<typeof startRedis>>
let client: Redis

beforeAll(async () => {
  server = await startRedis()
  client = new Redis(server.port)
})

afterAll(async () => {
  client.disconnect()
  await server.dispose()
})

/** Every run has keys of its own. */
function lineOver(timed: TimedLink): { backend: LineBackend; channel: string } {
  runs += 1
  const prefix = `run${runs}:`
  const backend = new LineBackend(timed.asLink(), {
    prefix,
    channelPrefix: prefix,
    channel: 'push',
    fenceMemoryMs: 60_000,
    waitReplicas: 0,
    waitReplicasMs: 1_000,
  })
  return { backend, channel: `${prefix}push` }
}

async function compare(steps: number, seed: number, change?: (script: string) => string): Promise<void> {
  const timed = new TimedLink(linkOf(client), FUTURE_US, change)
  const told = new Set<string>()
  const mayBeTold = new Set<string>()
  const sink: Sink = {
    granted: (id, fence) => void told.add(`${refOf(id)} ${fence}`),
    wanted: () => {},
    hint: () => {},
    lost: () => {},
  }
  const { backend, channel } = lineOver(timed)
  await backend.open(sink)
  const model = new LineModel((last) => {
    const clock = BigInt(timed.nowUs)
    return last + 1n > clock ? last + 1n : clock
  })
  const random = randomOf(seed)
  const histories = Array.from({ length: HISTORIES }, (_, index) => new History(index, seed, model))
  const mustBeTold: string[] = []
  try {
    for (let round = 0; round < steps / HISTORIES; round += 1) {
      const now = timed.nowMs
      const results = await Promise.all(histories.map((history) => history.step(backend, now)))
      mustBeTold.push(...results.flat())
      for (const history of histories) {
        for (const [ref, fence] of history.admitted(now)) mayBeTold.add(`${ref} ${fence}`)
      }
      if (random(3) === 0) timed.nowUs += (histories[random(HISTORIES)] as History).jumpMs(now) * 1_000
      timed.nowUs += random(3)
    }
    await client.publish(channel, 'g end 0 0')
    await expect.poll(() => told.has(`${refOf('end')} 0`), { timeout: 60_000 }).toBe(true)
    expectSame(
      mustBeTold.filter((each) => !told.has(each)),
      [],
    )
    mayBeTold.add(`${refOf('end')} 0`)
    expectSame(
      [...told].filter((each) => !mayBeTold.has(each)),
      [],
    )
  } finally {
    await backend.close()
  }
}

describe('the line script and the rule', () => {
  it('agree on 100,000 random steps: verdicts, lines, and who is told', async () => {
    await compare(100_000, 1)
  })

  it('keep fences growing when the clock of the server is set back', async () => {
    const timed = new TimedLink(linkOf(client), FUTURE_US)
    const { backend } = lineOver(timed)
    await backend.open(NO_SINK)
    const fences: bigint[] = []
    for (const backMs of [0, 1, 30_000, 59_000]) {
      timed.nowUs -= backMs * 1_000
      const claim = claimOf('set back')
      const verdict = await backend.attempt(claim, { waitMs: 0, leaseMs: 1_000 })
      fences.push((verdict as { fence: bigint }).fence)
      await backend.release(claim)
    }
    await backend.close()
    expectSame(
      fences.every((fence, index) => index === 0 || fence > (fences[index - 1] as bigint)),
      true,
    )
  })

  it.each([
    ['an expired claim still counts', 'if entry.expires > NOW then', 'if entry.expires >= NOW then'],
    ['a renewal revives', 'if ends <= NOW or fence', 'if fence'],
    ['a renewal keeps any place', 'or fence ~= place then', 'then'],
    [
      'the limit is one too high',
      'if sum > limit then return i - 1 end',
      'if sum > limit + 1 then return i - 1 end',
    ],
    ['a claim is not looked for', 'and not find_claim(value, id) then', 'then'],
    ['a fence is used twice', 'math.max(last_fence + 1, CLOCK)', 'math.max(last_fence + 0, CLOCK)'],
    ['nobody is told', "redis.pcall('PUBLISH', CHANNELS .. channel, message)", ''],
    ['a weight may grow', 'math.min(before, claim.weight)', 'claim.weight'],
  ])('would notice that %s', async (_, find, replace) => {
    const change = (script: string): string => {
      expectSame(script.split(find).length, 2)
      return script.replace(find, () => replace)
    }
    await expect(compare(20_000, 2, change)).rejects.toThrow()
  })
})
