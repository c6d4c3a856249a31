import type { ClaimView, ResourceView } from 'holdfast'
import { expect, it } from 'vitest'
import { type Event, LockTable } from '../../src/watch/lock-table.js'

const WAITERS = 500
const owner = { host: 'h', pid: 1, client: 'c' }

function claimView(at: number): ClaimView {
  const fence = BigInt(at * 1_024)
  return { ref: `ref-${at}`, owner, note: null, weight: 1, fence, ageMs: 0, remainingMs: 60_000 }
}

it('does not walk over a long queue for each claim that is granted or ends between two looks', () => {
  let reads = 0
  const queue = Array.from({ length: WAITERS }, (_, at) => claimView(at + 2))
  const waiters = new Proxy(queue, {
    get: (target, key): unknown => {
      reads += 1
      return Reflect.get(target, key)
    },
  })
  const events: Event[] = []
  const table = new LockTable((event) => events.push(event))
  const shape = { kind: 'mutex', limit: 1 } as const
  const view: ResourceView = { resource: 'a', shape, holders: [claimView(1)], waiters }
  table.saw(view, 0, 1, 0)
  events.length = 0
  reads = 0
  for (let at = 1; at <= WAITERS; at += 1) {
    table.ended('a', `ref-${at}`, null, null, 10 + at)
    const { ref, fence, weight } = claimView(at + 1)
    table.acquired('a', { ref, owner, note: null, weight, fence, waitedMs: 5, remainingMs: 60_000 }, 10 + at)
  }
  expect(events.filter(({ kind }) => kind === 'acquired')).toHaveLength(WAITERS)
  expect(events.filter(({ kind }) => kind === 'released')).toHaveLength(WAITERS)
  // A few walks over the queue, and not one for each claim.
  expect(reads).toBeLessThan(20 * WAITERS)
})
