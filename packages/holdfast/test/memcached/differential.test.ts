// @module-tag exclusion
import { afterAll, beforeAll, describe, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import type { Backend, Claim, ResourceView, Shape, Verdict } from '../../src/core/backend.js'
import { refOf } from '../../src/core/names.js'
import { claimOf, NO_SINK } from '../support/claims.js'
import { LineModel, randomOf } from '../support/line-model.js'
import { expectSame } from '../support/same.js'
import { isMissing, whyMissing } from './support.js'

const SHAPES: readonly Shape[] = [
  { kind: 'mutex', limit: 1 },
  { kind: 'semaphore', limit: 3 },
  { kind: 'read-write', limit: 5 },
]
const STEPS = 30
const HISTORIES = 400

/** The server's clock cannot be set, and goes on meanwhile: so nothing is compared that is a time, and nothing ends. */
function untimed(verdict: Verdict): unknown {
  switch (verdict.kind) {
    case 'granted':
      return { kind: 'granted' }
    case 'waiting':
      return { kind: 'waiting', ahead: verdict.ahead, holder: verdict.holder }
    case 'refused':
      return { kind: 'refused', holder: verdict.holder }
    case 'mismatched':
      return verdict
  }
}

function untimedView({ shape, holders, waiters }: ResourceView): unknown {
  const shown = (views: ResourceView['holders']): unknown =>
    views.map(({ ref, owner, note, weight, fence }) => ({ ref, owner, note, weight, fence }))
  return { shape, holders: shown(holders), waiters: shown(waiters) }
}

async function runHistory(seed: number, backends: readonly Backend[]): Promise<void> {
  const random = randomOf(seed)
  const model = new LineModel(() => null as never)
  const resources = [`h${seed}:x`, `h${seed}:y`]
  const shape = SHAPES[random(SHAPES.length)] as Shape
  const claims = Array.from({ length: 6 }, (_, index) =>
    claimOf(resources[index % 2] as string, {
      id: `h${seed}-${index}`,
      // Now and then one that does not fit.
      shape: random(25) === 0 ? { kind: 'semaphore', limit: 9 } : shape,
      weight: 1 + random(shape.limit),
      ttlMs: 300_000 + random(1_000_000),
      note: random(2) === 0 ? null : `a note, "quoted" ${index} ü`,
    }),
  )
  for (let step = 0; step < STEPS; step += 1) {
    const backend = backends[random(backends.length)] as Backend
    const index = random(claims.length)
    let claim = claims[index] as Claim
    const label = `seed ${seed}, step ${step}`
    const what = random(10)
    if (what < 5) {
      const patience = { waitMs: random(3) === 0 ? 0 : 1_000, leaseMs: 200_000 + random(100_000) }
      if (random(6) === 0) claim = claims[index] = { ...claim, weight: 1 + random(shape.limit) }
      const verdict = await backend.attempt(claim, patience)
      expectSame(untimed(verdict), untimed(model.attempt(claim, patience, 0)), label)
    } else if (what < 7) {
      const requests = claims
        .slice(random(3), 3 + random(4))
        .map((each) => ({ claim: each, fence: null, leaseMs: random(900_000) }))
      const expected = requests.map((request) => model.renew(request, 0))
      expectSame(await backend.renew(requests), expected, label)
    } else if (what < 9) {
      const removed = model.remove(claim.resource, (place) => place.id === claim.id, 0)
      expectSame(await backend.release(claim), removed ? 'released' : 'gone', label)
    } else {
      const ref = refOf(claim.id)
      const removed = model.remove(claim.resource, (place) => refOf(place.id) === ref, 0)
      expectSame(await backend.evict(claim.resource, ref), removed ? 'evicted' : 'gone', label)
    }
    for (const resource of resources) {
      expectSame(untimedView(await backend.inspect(resource)), untimedView(model.view(resource, 0)), label)
    }
  }
}

describe.skipIf(isMissing)(titled('the recipe `record` and the rule', whyMissing), () => {
  let backends: Backend[] = []
  let dispose: () => Promise<void> = async () => {}
  beforeAll(async () => {
    const { startMemcached } = await import('holdfast-servers')
    const { openMemcached } = await import('../../src/backends/memcached/open.js')
    const server = await startMemcached()
    dispose = () => server.dispose()
    backends = [await openMemcached(server.url), await openMemcached(server.url)]
    for (const backend of backends) await backend.open(NO_SINK)
  })
  afterAll(async () => {
    for (const backend of backends) await backend.close()
    await dispose()
  })

  it(`agree on ${HISTORIES} random histories over two connections`, async () => {
    for (let seed = 1; seed <= HISTORIES; seed += 1) await runHistory(seed, backends)
  })
})
