// @module-tag exclusion
import { type Claim, refOf, type Verdict } from 'holdfast/backend'
import { SeededRandom, VirtualTime } from 'holdfast/testing'
import { describe, expect, it } from 'vitest'
import { Excuses } from '../../src/sim/excuses.js'
import { Fairness } from '../../src/sim/fairness.js'
import { SimProcess } from '../../src/sim/process.js'
import { makeStore } from '../../src/sim/stores/index.js'
import type { SimStore, StoreType } from '../../src/sim/stores/store.js'

const TTL_MS = 1_000
const NO_SINK = { granted: () => {}, wanted: () => {}, hint: () => {}, lost: () => {} }

/** A seed for which the store of this type promises an order or does not. */
function storeOf(type: StoreType, isFair: boolean, time: VirtualTime): SimStore {
  for (let seed = 1; ; seed++) {
    const store = makeStore(type, { time, random: new SeededRandom(seed), ttlMs: TTL_MS })
    if (store.guarantees.fair === isFair) return store
  }
}

function scene(type: StoreType, isFair = true) {
  const time = new VirtualTime()
  const process = new SimProcess('p1', time, new SeededRandom(1), 1)
  const store = storeOf(type, isFair, time)
  const excuses = new Excuses(time)
  const fairness = new Fairness(store, excuses)
  const client = { process, sink: NO_SINK }
  const claimOf = (id: string): Claim => {
    const owner = { ...process.runtime.identity, client: 'c' } as unknown as Claim['owner']
    const shape = { kind: 'mutex', limit: 1 } as const
    return { id, resource: 'a', shape, weight: 1, ttlMs: TTL_MS, owner, note: null }
  }
  const attempt = (id: string): Verdict | null => {
    let answer: Verdict | null = null
    store.attempt(client, claimOf(id), { waitMs: 1, leaseMs: TTL_MS }, (verdict) => {
      answer = verdict
    })
    return answer
  }
  const grant = (id: string, place: bigint | null, handOvers: number | null = null): void => {
    const key = { ref: refOf(id), place }
    fairness.granted({ isFresh: true, process, resource: 'a', limit: 1, key, handOvers })
  }
  const release = (id: string): void => {
    store.release(client, claimOf(id))
  }
  return { time, process, store, excuses, fairness, attempt, grant, release }
}

describe('the check of the order of arrival', () => {
  it.each(['leased', 'session', 'lossy', 'stepping'] as const)(
    'reports one that overtakes on a %s store',
    (type) => {
      const { attempt, grant } = scene(type)
      expect(attempt('one')).toMatchObject({ kind: 'granted', fence: 1n })
      expect(attempt('two')).toMatchObject({ kind: 'waiting', fence: 2n })
      expect(() => grant('one', 1n)).not.toThrow()
      expect(() => grant('two', 2n)).toThrow('unfair')
    },
  )

  it('forgets those that have left', () => {
    const { attempt, grant, release } = scene('leased')
    attempt('one')
    attempt('two')
    release('one')
    expect(() => grant('two', 2n)).not.toThrow()
  })

  it('reports one that overtakes on a store without fencing tokens', () => {
    const { attempt, grant } = scene('unfenced')
    attempt('one')
    attempt('two')
    expect(() => grant('two', null)).toThrow('unfair')
  })

  it('gives a claim that comes back without a fencing token the position of a new one', async () => {
    const { time, attempt, grant, release } = scene('unfenced')
    attempt('one')
    attempt('two')
    await time.advance(TTL_MS + 1)
    attempt('three')
    attempt('one')
    attempt('two')
    release('three')
    expect(() => grant('one', null)).not.toThrow()
    expect(() => grant('two', null)).toThrow('unfair')
  })

  it.each(['unfenced', 'blocking'] as const)('expects none of a %s store that promises none', (type) => {
    const { attempt, grant } = scene(type, false)
    attempt('one')
    attempt('two')
    expect(() => grant('two', type === 'unfenced' ? null : 2n)).not.toThrow()
  })

  it('begins again with the entries that a loss of data has left', () => {
    const { store, process, excuses, fairness, attempt, grant } = scene('lossy')
    attempt('one')
    attempt('two')
    const before = store.entries()
    while (store.entries().length > 0) store.strike('data-loss', process)
    excuses.add(before, store.entries(), store.guarantees.ttlMaxMs)
    fairness.storeStruck()
    expect(attempt('three')).toMatchObject({ kind: 'granted' })
    expect(attempt('one')).toMatchObject({ kind: 'waiting' })
    // Its grant was on the way when the entry was lost.
    expect(() => grant('one', 1n)).not.toThrow()
  })
})

describe('the check of hand-overs', () => {
  it('reports one after the time of a process is over', async () => {
    const { time, attempt, grant } = scene('leased')
    attempt('one')
    grant('one', 1n, 0)
    await time.advance(49)
    expect(() => grant('one', 1n, 1)).not.toThrow()
    await time.advance(2)
    expect(() => grant('one', 1n, 2)).toThrow('handed a over 51 ms after its grant')
  })
})
