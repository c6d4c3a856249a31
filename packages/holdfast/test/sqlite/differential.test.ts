// @module-tag exclusion
import { describe, it } from 'vitest'
import type { Backend, Claim, Shape } from '../../src/core/backend.js'
import { refOf } from '../../src/core/names.js'
import { LineModel, randomOf } from '../support/line-model.js'
import { expectSame } from '../support/same.js'
import { claimOf, FakeMachine, openBackend, tempPath } from './support.js'

const SHAPES: readonly Shape[] = [
  { kind: 'mutex', limit: 1 },
  { kind: 'semaphore', limit: 3 },
  { kind: 'read-write', limit: 5 },
]

const STEPS = 30

async function runHistory(
  seed: number,
  model: LineModel,
  backends: Backend[],
  machine: FakeMachine,
): Promise<void> {
  const random = randomOf(seed)
  const resources = [`h${seed}:x`, `h${seed}:y`]
  const shape = SHAPES[random(SHAPES.length)] as Shape
  const claims = Array.from({ length: 6 }, (_, index) =>
    claimOf(resources[index % 2] as string, {
      id: `h${seed}-${index}`,
      // Now and then one that does not fit.
      shape: random(25) === 0 ? { kind: 'semaphore', limit: 9 } : shape,
      weight: 1 + random(shape.limit),
      ttlMs: 200 + random(2_000),
      note: random(2) === 0 ? null : `note ${index}`,
    }),
  )
  const fences = new Map<string, bigint | null>()
  for (let step = 0; step < STEPS; step += 1) {
    const backend = backends[random(backends.length)] as Backend
    const index = random(claims.length)
    let claim = claims[index] as Claim
    const label = `seed ${seed}, step ${step}`
    const now = machine.now
    const what = random(12)
    if (what < 5) {
      const patience = { waitMs: random(3) === 0 ? 0 : 1_000, leaseMs: 100 + random(500) }
      if (random(6) === 0) claim = claims[index] = { ...claim, weight: 1 + random(shape.limit) }
      const expected = model.attempt(claim, patience, now)
      expectSame(await backend.attempt(claim, patience), expected, label)
      // Now and then the old one is kept, as by a process that does not know of its new place yet.
      if ('fence' in expected && random(5) > 0) fences.set(claim.id, expected.fence)
    } else if (what < 7) {
      const requests = claims
        .slice(random(3), 3 + random(4))
        .map((each) => ({ claim: each, fence: fences.get(each.id) ?? null, leaseMs: random(900) }))
      const expected = requests.map((request) => model.renew(request, now))
      expectSame(await backend.renew(requests), expected, label)
    } else if (what < 9) {
      const removed = model.remove(claim.resource, (place) => place.id === claim.id, now)
      expectSame(await backend.release(claim), removed ? 'released' : 'gone', label)
    } else if (what === 9) {
      const ref = refOf(claim.id)
      const removed = model.remove(claim.resource, (place) => refOf(place.id) === ref, now)
      expectSame(await backend.evict(claim.resource, ref), removed ? 'evicted' : 'gone', label)
    } else {
      // Often exactly to the end of something, which is where an off-by-one lives.
      const ends = [...model.view(claim.resource, now).holders].map((view) => view.remainingMs ?? 0)
      machine.now += random(3) === 0 && ends[0] !== undefined ? ends[0] : random(400)
    }
    for (const resource of resources) {
      expectSame(await backend.inspect(resource), model.view(resource, machine.now), label)
    }
  }
}

describe('the SQLite backend and the rule', () => {
  it('agree on 2,000 random histories over two connections', async () => {
    const path = await tempPath()
    const machine = new FakeMachine()
    const backends = [await openBackend({ path, machine }), await openBackend({ path, machine })]
    // One counter for the whole file, whatever the resource.
    let fence = 0n
    const model = new LineModel(() => {
      fence += 1n
      return fence
    })
    for (let seed = 1; seed <= 2_000; seed += 1) await runHistory(seed, model, backends, machine)
  })
})
