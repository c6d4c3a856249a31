/**
 * Random histories of one record, played on a store by a few owners through two clients and on the rule by itself,
 * which must agree in every answer and in what stands there afterwards. Leases are long, so time has no part in it.
 *
 *     it('plays by the rule', () => playsByTheRule(() => openTwoClients()))
 */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import {
  claimed,
  decideClaim,
  decideFinish,
  decideSave,
  decideSpend,
  type Found,
  issued,
  mayRenew,
} from '../../src/core/record-rule.js'
import type { ClaimAsk, IdempotencyRecord, RecordStore } from '../../src/core/records.js'

const LEASE_MS = 3_600_000
const RETENTION_MS = 7_200_000

type Step =
  | { readonly do: 'claim'; readonly who: number; readonly print: number; readonly flags: number }
  | { readonly do: 'finish'; readonly who: number; readonly fence: number; readonly state: 0 | 1 | 2 }
  | { readonly do: 'save'; readonly who: number; readonly fence: number }
  | { readonly do: 'renew'; readonly who: number; readonly fence: number; readonly asks: boolean }
  | { readonly do: 'spend'; readonly count: boolean }
  | { readonly do: 'issue' }
  | { readonly do: 'forget' }

const STATES = ['completed', 'failed', 'released'] as const
const PRINTS = [null, `v1:${'a'.repeat(64)}`, `v1:${'b'.repeat(64)}`, `v0:${'a'.repeat(64)}`]

const who = fc.integer({ min: 0, max: 3 })
/** Which of its fences an owner shows: mostly the last, now and then an older one, or one that never was. */
const fence = fc.oneof(
  { weight: 6, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 3 }) },
)
const steps = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('claim' as const),
      who,
      print: fc.oneof(
        { weight: 5, arbitrary: fc.constant(1) },
        { weight: 2, arbitrary: fc.integer({ min: 0, max: 3 }) },
      ),
      flags: fc.integer({ min: 0, max: 3 }),
    }),
  },
  {
    weight: 7,
    arbitrary: fc.record({
      do: fc.constant('finish' as const),
      who,
      fence,
      state: fc.constantFrom(0 as const, 1 as const, 2 as const, 2 as const, 2 as const),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('save' as const), who, fence }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('renew' as const), who, fence, asks: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('spend' as const), count: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('issue' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('forget' as const) }) },
)

/** One key, what the rule says of it, and what the store does. */
class History {
  readonly #store: RecordStore
  readonly #key = randomBytes(32).toString('hex')
  readonly #owners = Array.from({ length: 4 }, () => randomBytes(16).toString('hex'))
  readonly #fences = new Map<string, bigint[]>()
  #record: IdempotencyRecord | null = null
  /** The highest so far, which also a removal does not lower where the store says so. */
  #highest = 0n
  #texts = 0

  constructor(store: RecordStore) {
    this.#store = store
  }

  async play(step: Step): Promise<void> {
    switch (step.do) {
      case 'claim':
        return await this.#claim(step)
      case 'finish': {
        const state = STATES[step.state]
        const result = state === 'released' ? null : this.#text()
        const ask = { ...this.#ref(step), state, result, retentionMs: RETENTION_MS }
        return this.#changed(await this.#store.finish(ask), decideFinish(this.#record, ask))
      }
      case 'save': {
        const ask = { ...this.#ref(step), progress: this.#text() }
        return this.#changed(await this.#store.save(ask), decideSave(this.#record, ask))
      }
      case 'renew': {
        const ask = { ...this.#ref(step), leaseMs: step.asks ? 0 : LEASE_MS, retentionMs: RETENTION_MS }
        const [answer] = await this.#store.renew([ask])
        assert.equal(
          answer !== 'lost',
          mayRenew(this.#found(), ask),
          `The renewal was answered with ${answer}.`,
        )
        return
      }
      case 'spend': {
        const { answer, record } = decideSpend(this.#record, step.count)
        assert.deepEqual(await this.#store.spend({ key: this.#key, count: step.count }), answer)
        this.#record = record ?? this.#record
        return
      }
      case 'issue':
        return await this.#issue()
      case 'forget':
        assert.equal(await this.#store.forget(this.#key), this.#record !== null)
        this.#record = null
        if (this.#store.traits.fencing !== 'strict') this.#highest = 0n
    }
  }

  /** What stands there is what the rule says. When it was made and how long its lease is, only the store knows. */
  async check(): Promise<void> {
    const view = await this.#store.read(this.#key)
    if (view === null || this.#record === null) {
      assert.equal(view, this.#record)
      return
    }
    const { leaseMs, createdAtMs: _made, ...rest } = view
    const { createdAtMs: _unknown, ...expected } = this.#record
    assert.deepEqual(rest, expected)
    assert.equal(leaseMs !== null && leaseMs > 0, rest.state === 'in-progress')
  }

  async #claim({ who: index, print, flags }: Extract<Step, { do: 'claim' }>): Promise<void> {
    const ask: ClaimAsk = {
      key: this.#key,
      owner: this.#ownerOf(index),
      fingerprint: PRINTS[print] ?? null,
      leaseMs: LEASE_MS,
      retentionMs: RETENTION_MS,
      takeOver: (flags & 1) === 0,
      onlyIssued: flags === 3,
    }
    const decision = decideClaim(this.#found(), ask, null)
    const answer = await this.#store.claim(ask)
    if (decision.kind === 'answer') {
      assert.deepEqual(untimed(answer), untimed(decision.answer))
      return
    }
    assert(answer.kind === 'claimed', `The rule writes, and the store said ${answer.kind}.`)
    assert(answer.fence > this.#highest, 'The fence did not grow.')
    this.#highest = answer.fence
    this.#record = { ...decision.record, fence: answer.fence }
    assert.deepEqual(untimed(answer), untimed(claimed(this.#record, LEASE_MS)))
    const fences = this.#fences.get(ask.owner) ?? []
    this.#fences.set(ask.owner, [answer.fence, ...fences])
  }

  async #issue(): Promise<void> {
    assert.equal(await this.#store.issue(this.#key, RETENTION_MS), this.#record === null)
    if (this.#record !== null) return
    // A token has a fence that nobody was told, so it is looked up.
    const view = await this.#store.read(this.#key)
    assert(view !== null)
    this.#record = { ...issued(null), fence: view.fence }
    if (view.fence > this.#highest) this.#highest = view.fence
  }

  #changed(answer: 'done' | 'stale', record: IdempotencyRecord | null): void {
    assert.equal(answer, record === null ? 'stale' : 'done')
    this.#record = record ?? this.#record
  }

  #found(): Found | null {
    return this.#record === null ? null : { record: this.#record, leaseMs: LEASE_MS }
  }

  #ref({ who: index, fence: back }: { readonly who: number; readonly fence: number }): {
    readonly key: string
    readonly owner: string
    readonly fence: bigint
  } {
    const owner = this.#ownerOf(index)
    const shown = this.#fences.get(owner)?.[back] ?? this.#record?.fence ?? 1n
    return { key: this.#key, owner, fence: back === 3 ? shown + 1n : shown }
  }

  #ownerOf(index: number): string {
    return this.#owners[index] ?? assert.fail()
  }

  #text(): string {
    this.#texts += 1
    return `text ${this.#texts} "é𠮷'\\`
  }
}

/** An answer without what only a clock knows. */
function untimed(answer: object): object {
  return { ...answer, leaseMs: null, createdAtMs: null }
}

/** Plays many histories; `stores` are two open clients of one storage, and each history goes through one of them. */
export async function playsByTheRule(
  stores: readonly [RecordStore, RecordStore],
  { runs = 60 }: { readonly runs?: number } = {},
): Promise<void> {
  let index = 0
  const history = fc.array(steps, { minLength: 5, maxLength: 30, size: 'max' })
  await fc.assert(
    fc.asyncProperty(history, async (played) => {
      index += 1
      const one = new History(stores[index % 2 === 0 ? 0 : 1])
      for (const step of played) {
        await one.play(step)
        await one.check()
      }
    }),
    { numRuns: runs },
  )
}
