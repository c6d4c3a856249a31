import type { Backend, Claim, Renewal, Verdict } from 'holdfast/backend'
import { expect, test } from 'vitest'
import { OpenRequests, RecordedStore } from '../../src/torture/recorded-store.js'

const claim = (id: string): Claim => ({ id, resource: 'a' }) as Claim
const PATIENCE = { waitMs: 1_000, leaseMs: 1_000 }

/** A store that answers what it is told to. */
function recorded(answers: { kind: string; renewal?: Renewal }): {
  readonly store: RecordedStore
  readonly requests: OpenRequests
  readonly queued: string[]
} {
  const queued: string[] = []
  const requests = new OpenRequests((resource) => queued.push(resource))
  const inner = {
    attempt: () => Promise.resolve({ kind: answers.kind } as Verdict),
    renew: () => Promise.resolve([answers.renewal ?? 'renewed']),
    release: () => Promise.resolve('released'),
  } as unknown as Backend
  return { store: new RecordedStore(inner, requests), requests, queued }
}

test('a position in the queue is noted once, when the store has confirmed it', async () => {
  const { store, queued } = recorded({ kind: 'waiting' })
  await store.attempt(claim('1'), PATIENCE)
  await store.attempt(claim('1'), PATIENCE)
  expect(queued).toEqual(['a'])
})

test('a lock counts from the first request, and its number is known while there is one', async () => {
  const { store, requests } = recorded({ kind: 'granted' })
  await store.attempt(claim('1'), PATIENCE)
  const { since, request } = requests.grantedBy('a')
  expect(request).toBe(1)
  await store.attempt(claim('2'), PATIENCE)
  expect(requests.grantedBy('a')).toEqual({ since })
  await store.release(claim('1'))
  expect(requests.grantedBy('a').request).toBe(2)
})

test('a request that waits counts from its first time, also if the store says that it was lost', async () => {
  const answers = { kind: 'waiting', renewal: 'lost' as const }
  const { store, requests } = recorded(answers)
  const renewal = { claim: claim('1'), fence: null, leaseMs: 1_000 }
  await store.attempt(claim('1'), PATIENCE)
  const before = requests.grantedBy('a')
  await store.renew([renewal])
  expect(requests.grantedBy('a')).toEqual(before)
  answers.kind = 'granted'
  await store.attempt(claim('1'), PATIENCE)
  await store.renew([renewal])
  // Nothing is known of it any more, so it counts as sent before all others.
  expect(requests.grantedBy('a')).toEqual({ since: 0 })
})

test('a request that was refused is forgotten', async () => {
  const { store, requests } = recorded({ kind: 'refused' })
  await store.attempt(claim('1'), PATIENCE)
  expect(requests.grantedBy('a')).toEqual({ since: 0 })
})
