import { setTimeout as sleep } from 'node:timers/promises'
import { storeFor } from 'holdfast-servers'
import pg from 'pg'
import { afterAll, describe, expect, it } from 'vitest'
import { backendOver } from '../../src/backends/postgres/backend.js'
import { pgLink } from '../../src/backends/postgres/link.js'
import { claimOf, NO_SINK } from '../support/claims.js'

const outcome = await storeFor('postgres')

describe.skipIf(outcome.kind === 'not run')('a release beside an attempt that is still under way', () => {
  if (outcome.kind === 'not run') return
  const pool = new pg.Pool({ connectionString: outcome.store.url, max: 4 })
  afterAll(async () => {
    await pool.end()
    await outcome.store.dispose()
  })

  it('does not overtake it, and leaves nothing behind', async () => {
    const inner = pgLink(pool, { prepare: true, end: async () => {} })
    const slow = {
      ...inner,
      session: () => inner.session(),
      script: (text: string) => inner.script(text),
      close: () => inner.close(),
      async run(statement: Parameters<typeof inner.run>[0], values?: readonly unknown[]) {
        if (statement.name.endsWith('_take')) await sleep(200)
        return await inner.run(statement, values)
      },
    }
    const backend = backendOver(slow, { wake: 'poll' })
    await backend.migrate?.()
    await backend.open(NO_SINK)
    const holder = claimOf('overtaken', { id: 'holder' })
    const waiter = claimOf('overtaken', { id: 'waiter' })
    const patience = { waitMs: 1_000, leaseMs: 30_000 }
    expect((await backend.attempt(holder, patience)).kind).toBe('granted')
    const attempt = backend.attempt(waiter, patience)
    await sleep(50)
    expect(await backend.release(waiter)).toBe('released')
    expect((await attempt).kind).toBe('waiting')
    expect((await backend.inspect('overtaken')).waiters).toEqual([])
    await backend.release(holder)
    await backend.close()
  })
})
