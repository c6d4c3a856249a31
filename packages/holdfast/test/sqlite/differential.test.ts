import { describe, expect, it } from 'vitest'
import type {
  Backend,
  Claim,
  Patience,
  Renewal,
  RenewRequest,
  ResourceView,
  Shape,
  Verdict,
} from '../../src/core/backend.js'
import { decide, isLive, type Place, renewedExpiry, viewLine } from '../../src/core/line.js'
import { refOf } from '../../src/core/names.js'
import { claimOf, FakeMachine, openBackend, tempPath } from './support.js'

/** The same contract with an array: nothing but the rule and the bookkeeping around it. */
class Model {
  readonly #lines = new Map<string, Place[]>()
  #fence = 0n

  attempt(claim: Claim, patience: Patience, now: number): Verdict {
    const line = this.#live(claim.resource, now)
    const decision = decide(line, claim, patience, now)
    if (decision.kind === 'mismatched' || decision.kind === 'refused') return decision
    const { admitted, leaseMs, ahead, retryAfterMs, holder } = decision
    let fence: bigint | null
    if (decision.kind === 'join') {
      this.#fence += 1n
      fence = this.#fence
      const { id, shape, weight, owner, note } = claim
      line.push({ id, shape, weight, fence, joinedAt: now, expiresAt: now + leaseMs, owner, note })
    } else {
      const { place, weight, extend } = decision
      fence = place.fence
      line[line.indexOf(place)] = { ...place, weight, expiresAt: extend ? now + leaseMs : place.expiresAt }
    }
    if (admitted) return { kind: 'granted', fence, leaseMs }
    return { kind: 'waiting', fence, leaseMs, ahead, retryAfterMs, holder }
  }

  renew(request: RenewRequest, now: number): Renewal {
    const line = this.#live(request.claim.resource, now)
    const index = line.findIndex((place) => place.id === request.claim.id)
    const expiresAt = renewedExpiry(line[index], request, now)
    if (expiresAt === null) return 'lost'
    line[index] = { ...(line[index] as Place), expiresAt }
    return 'renewed'
  }

  remove(resource: string, isIt: (place: Place) => boolean, now: number): boolean {
    const line = this.#live(resource, now)
    const index = line.findIndex(isIt)
    if (index >= 0) line.splice(index, 1)
    return index >= 0
  }

  view(resource: string, now: number): ResourceView {
    return viewLine(resource, this.#live(resource, now), now)
  }

  #live(resource: string, now: number): Place[] {
    const line = (this.#lines.get(resource) ?? []).filter((place) => isLive(place, now))
    this.#lines.set(resource, line)
    return line
  }
}

/** mulberry32: small, and the same everywhere. */
function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

const SHAPES: readonly Shape[] = [
  { kind: 'mutex', limit: 1 },
  { kind: 'semaphore', limit: 3 },
  { kind: 'read-write', limit: 5 },
]

const STEPS = 30

async function runHistory(
  seed: number,
  model: Model,
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
      expect(await backend.attempt(claim, patience), label).toEqual(expected)
      // Now and then the old one is kept, as by a process that does not know of its new place yet.
      if ('fence' in expected && random(5) > 0) fences.set(claim.id, expected.fence)
    } else if (what < 7) {
      const requests = claims
        .slice(random(3), 3 + random(4))
        .map((each) => ({ claim: each, fence: fences.get(each.id) ?? null, leaseMs: random(900) }))
      const expected = requests.map((request) => model.renew(request, now))
      expect(await backend.renew(requests), label).toEqual(expected)
    } else if (what < 9) {
      const removed = model.remove(claim.resource, (place) => place.id === claim.id, now)
      expect(await backend.release(claim), label).toBe(removed ? 'released' : 'gone')
    } else if (what === 9) {
      const ref = refOf(claim.id)
      const removed = model.remove(claim.resource, (place) => refOf(place.id) === ref, now)
      expect(await backend.evict(claim.resource, ref), label).toBe(removed ? 'evicted' : 'gone')
    } else {
      // Often exactly to the end of something, which is where an off-by-one lives.
      const ends = [...model.view(claim.resource, now).holders].map((view) => view.remainingMs ?? 0)
      machine.now += random(3) === 0 && ends[0] !== undefined ? ends[0] : random(400)
    }
    for (const resource of resources) {
      expect(await backend.inspect(resource), label).toEqual(model.view(resource, machine.now))
    }
  }
}

describe('the SQLite backend and the rule', () => {
  it('agree on 2,000 random histories over two connections', async () => {
    const path = await tempPath()
    const machine = new FakeMachine()
    const backends = [await openBackend({ path, machine }), await openBackend({ path, machine })]
    const model = new Model()
    for (let seed = 1; seed <= 2_000; seed += 1) await runHistory(seed, model, backends, machine)
  })
})
