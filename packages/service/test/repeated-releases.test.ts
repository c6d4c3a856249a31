// @module-tag limits
/** Any caller can release claims that never existed. Other callers' releases are repeated all the same after an outage. */

import { randomBytes } from 'node:crypto'
import { type Claim, openBackend, openCounter } from 'holdfast/service'
import { expect, it, onTestFinished } from 'vitest'
import { until } from '../../../test/support/wait.js'

function claimOf(client: string, at: number): Claim {
  const owner = { host: 'h', pid: 0, client }
  const id = `${client}-${String(at).padStart(22, '0')}`
  const shape = { kind: 'mutex', limit: 1 } as const
  return { id, resource: 'a', shape, weight: 1, ttlMs: 600_000, owner, note: null }
}

it('a caller with many unconfirmed releases takes no room from the releases of others', async () => {
  const backend = await openBackend(`memory:repeated-${randomBytes(6).toString('hex')}`)
  let isAway = true
  const released = new Set<string>()
  backend.release = async ({ id }) => {
    if (isAway) throw new Error('the store is away')
    released.add(id)
    return 'gone'
  }
  const counter = await openCounter(backend, {})
  onTestFinished(() => counter.close())
  const release = (claim: Claim): Promise<unknown> => counter.release(claim)
  await Promise.all(Array.from({ length: 1_500 }, (_, at) => release(claimOf('forger', at))))
  expect(await release(claimOf('orders', 1))).toBe('unconfirmed')
  isAway = false
  await until('the release is repeated', () => released.has(claimOf('orders', 1).id))
  await until('those of the other caller, too', () => released.size === 1_001)
})
