// @module-tag exclusion
import { type RedisServer, startRedis } from 'holdfast-servers'
import { Redis } from 'ioredis'
import { afterEach, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { linkOf } from '../../src/backends/redis/driver.js'
import type { LineBackend } from '../../src/backends/redis/line.js'
import { claimOf } from '../support/claims.js'
import { lineAt } from './line-histories.js'

const ending: (() => Promise<unknown> | void)[] = []
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end()
})

async function server(args: readonly string[] = []): Promise<RedisServer> {
  const started = await startRedis({ args, clock: args.length > 0 })
  ending.push(() => started.dispose())
  return started
}

function lineOn({ port }: RedisServer): LineBackend {
  const client = new Redis(port)
  ending.push(() => client.disconnect())
  return lineAt(linkOf(client), 'promoted:', 'push')
}

const ONCE = { waitMs: 0, leaseMs: 60_000 }

/** A claim with a lease of a minute, on a master whose replica is then promoted with a clock that is ahead. */
async function promoted(
  aheadMs: number,
): Promise<{ line: LineBackend; claim: ReturnType<typeof claimOf>; fence: bigint }> {
  const master = await server()
  const replica = await server(['--replicaof', `127.0.0.1 ${master.port}`])
  await until('it is connected', async () => (await replica.info('replication')).master_link_status === 'up')
  if (aheadMs > 0) replica.stepClock(aheadMs)
  const claim = claimOf('a', { ttlMs: 60_000 })
  const verdict = await lineOn(master).attempt(claim, ONCE)
  if (verdict.kind !== 'granted' || verdict.fence === null) throw new Error('It is free.')
  await until('the replica has it', async () => Number(await replica.command('DBSIZE')) === 1)
  await replica.command('REPLICAOF', 'NO', 'ONE')
  return { line: lineOn(replica), claim, fence: verdict.fence }
}

describe('a replica that is promoted', () => {
  test('with the same clock keeps a lease to its end', async () => {
    const { line, claim, fence } = await promoted(0)
    expect(await line.attempt(claimOf('a'), ONCE)).toMatchObject({ kind: 'refused' })
    expect(await line.renew([{ claim, fence, leaseMs: 60_000 }])).toEqual(['renewed'])
  })

  test('with a clock that is ahead ends leases early by as much, and gives the next holder a higher fence', async () => {
    const { line, claim, fence } = await promoted(61_000)
    const next = await line.attempt(claimOf('a'), ONCE)
    expect(next).toMatchObject({ kind: 'granted' })
    expect((next as { fence: bigint }).fence).toBeGreaterThan(fence)
    // The old holder learns of it with its next renewal.
    expect(await line.renew([{ claim, fence, leaseMs: 60_000 }])).toEqual(['lost'])
  })
})
