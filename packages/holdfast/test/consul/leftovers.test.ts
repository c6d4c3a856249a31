/** What a client that lives leaves in Consul: nothing, however its claims ended. */

import { startProxy } from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { openConsul } from '../../src/backends/consul/open.js'
import type { Backend, Claim, Shape } from '../../src/core/backend.js'
import { connectTo, isMissing, keysOf, QUICK, serverOfFile, sessionsOf, whyMissing } from './support.js'

const server = serverOfFile()

const TIMEOUT_MS = 60_000
const PATIENCE = { waitMs: TIMEOUT_MS, leaseMs: 10_000 }
const SHAPES: readonly Shape[] = [
  { kind: 'mutex', limit: 1 },
  { kind: 'semaphore', limit: 3 },
]

function claimOf(id: string, resource: string, shape: Shape): Claim {
  const owner = { host: 'h', pid: 1, client: 'c' }
  return { id, resource, shape, weight: 1, ttlMs: 10_000, owner, note: null }
}

async function opened(port: number): Promise<Backend> {
  const backend = await openConsul(`consul://127.0.0.1:${port}?${QUICK}`)
  onTestFinished(() => backend.close())
  await backend.open({ granted() {}, wanted() {}, hint() {}, lost() {} })
  return backend
}

async function namesOf(resource: string): Promise<readonly string[]> {
  return (await keysOf(await server(), `${resource}/`)).map(({ Key }) => Key)
}

describe.skipIf(isMissing).each(SHAPES)(titled('a claim to a $kind', whyMissing), (shape) => {
  it('that is given up while its session begins leaves nothing', async () => {
    const proxy = await startProxy((await server()).port)
    onTestFinished(() => proxy.dispose())
    const backend = await opened(proxy.port)
    const claim = claimOf('claim', `early-${shape.kind}`, shape)
    proxy.holdReplies(true)
    const beginning = proxy.waitForBytes('request', '/v1/session/create')
    const attempt = backend.attempt(claim, PATIENCE)
    await beginning
    const released = backend.release(claim)
    proxy.holdReplies(false)
    expect(await attempt).toMatchObject({ kind: 'refused' })
    await released
    expect(await namesOf(claim.resource)).toEqual([])
  })

  it('whose release is under way when the client is closed leaves nothing', async () => {
    const backend = await opened((await server()).port)
    const claim = claimOf('claim', `leaving-${shape.kind}`, shape)
    expect(await backend.attempt(claim, PATIENCE)).toMatchObject({ kind: 'granted' })
    const released = backend.release(claim)
    await backend.close()
    await released.catch(() => undefined)
    expect(await namesOf(claim.resource)).toEqual([])
  })

  it('that is under way when the client is closed leaves nothing', async () => {
    const backend = await opened((await server()).port)
    const claim = claimOf('claim', `taking-${shape.kind}`, shape)
    const attempt = backend.attempt(claim, PATIENCE)
    await backend.close()
    await attempt.catch(() => undefined)
    expect(await namesOf(claim.resource)).toEqual([])
  })
})

describe.skipIf(isMissing)(titled('a permit whose session was ended', whyMissing), () => {
  it('leaves no record, if nobody else has one', async () => {
    const consul = await server()
    const before = new Set((await sessionsOf(consul)).map(({ ID }) => ID))
    const locks = await connectTo(`consul://127.0.0.1:${consul.port}?${QUICK}`, { ttlMs: 3_000 })
    const hold = await locks.semaphore('ended', 3).acquire()
    const [session] = (await sessionsOf(consul)).filter(({ ID }) => !before.has(ID))
    await consul.request('PUT', `/v1/session/destroy/${session?.ID}`)
    await until('the signal of the hold aborts', () => hold.signal.aborted)
    await until('nothing is left', async () => (await namesOf('ended')).length === 0)
  })
})
