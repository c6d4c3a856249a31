// @module-tag effects
import { createHash } from 'node:crypto'
import { startRedis } from 'holdfast-servers'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { linkOf } from '../../src/backends/redis/driver.js'
import type { RedisLink } from '../../src/backends/redis/link.js'
import { recordsOver } from '../../src/backends/redis/records.js'
import { source } from '../../src/backends/redis/records.lua'
import {
  claimed,
  decideClaim,
  decideFinish,
  decideSave,
  decideSpend,
  type Found,
  issued,
  mayRenew,
  nextFence,
  viewOf,
} from '../../src/core/record-rule.js'
import type { ClaimAsk, FinishAsk, IdempotencyRecord, RecordStore } from '../../src/core/records.js'
import { randomOf } from '../support/line-model.js'
import { expectSame } from '../support/same.js'
import { linkParts } from './record-support.js'

const HISTORIES = 48
const STEPS = 60
const RETENTION_MS = 50_000_000
const FUTURE_US = Date.UTC(2090, 0, 1) * 1_000
const PRINTS = [
  null,
  `v1:${'a'.repeat(64)}`,
  `v1:${'a'.repeat(64)}`,
  `v1:${'b'.repeat(64)}`,
  `v2:${'b'.repeat(64)}`,
]

/**
 * The server's clock in the hands of the test: the script is the real one but for what it does with time. It is told what
 * the time is, and each expiry counts from then, which is so far away that the server never finds it reached.
 */
class TimedLink {
  nowUs = FUTURE_US
  readonly #script: string
  readonly #sha: string

  constructor(change: (script: string) => string = (script) => script) {
    const nowMs = '(KEYS[2] * 1000 + math.floor(KEYS[3] / 1000))'
    const written = change(source)
    const told = [
      [" call('TIME')", ' { KEYS[2], KEYS[3] }'],
      [" call('PTTL', KEY)", ` call('PEXPIRETIME', KEY) - ${nowMs}`],
      ["'PX', ", `'PXAT', ${nowMs} + `],
      ["'PX',\n", `'PXAT', ${nowMs} +\n`],
      ["'PEXPIRE', KEY, ", `'PEXPIREAT', KEY, ${nowMs} + `],
    ] as const
    for (const [asked] of told) expect(written).toContain(asked)
    this.#script = told.reduce((script, [asked, given]) => script.replaceAll(asked, given), written)
    this.#sha = createHash('sha1').update(this.#script).digest('hex')
  }

  get nowMs(): number {
    return Math.floor(this.nowUs / 1_000)
  }

  over(inner: RedisLink): RedisLink {
    return {
      ...linkParts(inner),
      // So that every claim goes through the script: what it does is compared here.
      isCluster: true,
      send: (key, [command, , , only, ...args]) => {
        const time = [String(Math.floor(this.nowUs / 1_000_000)), String(this.nowUs % 1_000_000)]
        const script = command === 'EVALSHA' ? this.#sha : this.#script
        return inner.send(key, [command as string, script, '3', only as string, ...time, ...args])
      },
    }
  }
}

/** One record by the rule alone, and beside it the store, which must say the same to the millisecond. */
class History {
  readonly #random: (below: number) => number
  readonly #key: string
  readonly #time: TimedLink
  readonly #fences: bigint[] = [1n]
  #record: IdempotencyRecord | null = null
  /** The fence of what was forgotten, which is known for a moment, and a moment never ends here. */
  #forgotten: bigint | null = null
  #leaseEndsAt = 0

  constructor(seed: number, time: TimedLink) {
    this.#random = randomOf(seed)
    this.#key = seed.toString(16).padStart(64, '0')
    this.#time = time
  }

  async step(store: RecordStore): Promise<void> {
    const random = this.#random
    const key = this.#key
    const ref = { key, owner: `o${random(3)}`, fence: this.#fences[random(this.#fences.length)] ?? 1n }
    switch (random(10)) {
      case 0:
      case 1:
      case 2:
        return await this.#claim(store)
      case 3:
      case 4: {
        const state = (['completed', 'failed', 'released', 'released', 'released'] as const)[random(5)]
        const result = random(2) === 0 ? null : `r${random(99)} é\t"`
        const ask: FinishAsk = { ...ref, state: state ?? 'released', result, retentionMs: RETENTION_MS }
        const record = decideFinish(this.#record, ask)
        expectSame(await store.finish(ask), record === null ? 'stale' : 'done')
        this.#record = record ?? this.#record
        return
      }
      case 5: {
        const ask = { ...ref, progress: random(3) === 0 ? '' : `p${random(99)}` }
        const record = decideSave(this.#record, ask)
        expectSame(await store.save(ask), record === null ? 'stale' : 'done')
        this.#record = record ?? this.#record
        return
      }
      case 6:
      case 7: {
        const ask = { ...ref, leaseMs: random(4) === 0 ? 0 : 50 + random(300), retentionMs: RETENTION_MS }
        const may = mayRenew(this.#found(), ask)
        expectSame(await store.renew([ask]), [may ? 'renewed' : 'lost'])
        if (may) this.#leaseEndsAt = Math.max(this.#leaseEndsAt, this.#time.nowMs + ask.leaseMs)
        return
      }
      case 8: {
        const count = random(2) === 0
        const { answer, record } = decideSpend(this.#record, count)
        expectSame(await store.spend({ key, count }), answer)
        this.#record = record ?? this.#record
        return
      }
      default:
        return await this.#restart(store)
    }
  }

  async #claim(store: RecordStore): Promise<void> {
    const random = this.#random
    const ask: ClaimAsk = {
      key: this.#key,
      owner: `o${random(3)}`,
      fingerprint: PRINTS[random(PRINTS.length)] ?? null,
      leaseMs: 50 + random(300),
      retentionMs: RETENTION_MS,
      takeOver: random(3) > 0,
      onlyIssued: random(4) === 0,
    }
    const decision = decideClaim(this.#found(), ask, this.#time.nowMs)
    if (decision.kind === 'answer') {
      expectSame(await store.claim(ask), decision.answer)
      return
    }
    const fence = nextFence(this.#record?.fence ?? this.#forgotten, BigInt(this.#time.nowUs))
    this.#record = { ...decision.record, fence }
    this.#leaseEndsAt = this.#time.nowMs + ask.leaseMs
    this.#fences.unshift(fence)
    this.#fences.length = Math.min(this.#fences.length, 2)
    expectSame(await store.claim(ask), claimed(this.#record, ask.leaseMs))
  }

  async #restart(store: RecordStore): Promise<void> {
    if (this.#random(3) === 0) {
      expectSame(await store.forget(this.#key), this.#record !== null)
      this.#forgotten = this.#record?.fence ?? this.#forgotten
      this.#record = null
      return
    }
    expectSame(await store.issue(this.#key, RETENTION_MS), this.#record === null)
    const fence = nextFence(this.#forgotten, BigInt(this.#time.nowUs))
    this.#record ??= { ...issued(this.#time.nowMs), fence }
  }

  async check(store: RecordStore): Promise<void> {
    const found = this.#found()
    expectSame(await store.read(this.#key), found === null ? null : viewOf(found))
  }

  #found(): Found | null {
    if (this.#record === null) return null
    return { record: this.#record, leaseMs: this.#leaseEndsAt - this.#time.nowMs }
  }
}

describe('the script of records', () => {
  const ends: (() => unknown)[] = []
  let inner: RedisLink
  beforeAll(async () => {
    const server = await startRedis()
    ends.push(() => server.dispose())
    const client = new Redis(server.port, '127.0.0.1')
    ends.push(() => client.disconnect())
    inner = linkOf(client)
  })
  afterAll(async () => {
    for (const end of ends.reverse()) await end()
  })

  async function play(time: TimedLink, prefix: string): Promise<void> {
    const store = recordsOver(time.over(inner), { prefix })
    await store.open()
    const histories = Array.from({ length: HISTORIES }, (_, index) => new History(7_000 + index, time))
    const random = randomOf(4)
    for (let step = 0; step < STEPS; step += 1) {
      await Promise.all(histories.map((each) => each.step(store)))
      await Promise.all(histories.map((each) => each.check(store)))
      // Mostly less than a lease, now and then more, and sometimes back.
      time.nowUs += random(8) === 0 ? -random(100_000) : random(5) === 0 ? random(500_000) : random(40_000)
    }
  }

  it('does what the rule says, to the millisecond, whatever the clock does', async () => {
    await play(new TimedLink(), 'plain:')
  })

  it.each([
    ['takes over what is not over', 'if left > 0 then', 'if left > 100 then'],
    ['revives a lease that has ended', "if left <= 0 then return '0' end", ''],
    ['lets a stale owner finish', 'or fence ~= ARGV[3] then', 'then'],
    ['keeps the last fence', 'fence + 1', 'fence + 0'],
    ['forgets what others asked for', 'print ~= asked and', 'false and'],
    ['shortens a lease', 'math.max(left, ARGV[4])', 'ARGV[4]'],
    ['loses what was done', ".. progress .. '\\n', 'PX'", ".. '\\n', 'PX'"],
    ['counts an end as a claim', "'hf1 ' .. ARGV[4] .. sub(text, 6", "'hf1 p' .. sub(text, 6"],
  ])('is caught when it %s', async (_what, right, wrong) => {
    const broken = new TimedLink((script) => {
      expect(script).toContain(right)
      return script.replace(right, () => wrong)
    })
    await expect(play(broken, `broken ${right}:`.replaceAll(/\s/g, '_'))).rejects.toThrow()
  })
})
