// @module-tag exclusion
import { setTimeout as sleep } from 'node:timers/promises'
import { sharedStoreFor } from 'holdfast-servers'
import pg from 'pg'
import { afterAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { backendOver } from '../../src/backends/postgres/backend.js'
import { pgLink } from '../../src/backends/postgres/link.js'
import { claimOf, NO_SINK } from '../support/claims.js'

const outcome = await sharedStoreFor('postgres')

describe.skipIf(outcome.kind === 'not run')(
  titled(
    'a release beside an attempt that is still under way',
    outcome.kind === 'not run' ? outcome.reason : null,
  ),
  () => {
    if (outcome.kind === 'not run') return
    const pool = new pg.Pool({ connectionString: outcome.store.url, max: 4 })
    afterAll(async () => {
      await pool.end()
      await outcome.store.dispose()
    })

    it('does not overtake it, and leaves nothing behind', async () => {
      let isSlow = false
      let begin = (): void => {}
      const begun = new Promise<void>((resolve) => {
        begin = resolve
      })
      let open = (): void => {}
      const gate = new Promise<void>((resolve) => {
        open = resolve
      })
      const inner = pgLink(pool, { prepare: true, end: async () => {} })
      const slow = {
        ...inner,
        session: () => inner.session(),
        script: (text: string) => inner.script(text),
        close: () => inner.close(),
        async run(statement: Parameters<typeof inner.run>[0], values?: readonly unknown[]) {
          if (isSlow && statement.name.endsWith('_take')) {
            begin()
            await gate
          }
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
      isSlow = true
      const attempt = backend.attempt(waiter, patience)
      await begun
      const releasing = backend.release(waiter)
      // Long enough for a release that does not wait for the attempt to be carried out before it.
      await sleep(200)
      open()
      expect(await releasing).toBe('released')
      expect((await attempt).kind).toBe('waiting')
      expect((await backend.inspect('overtaken')).waiters).toEqual([])
      await backend.release(holder)
      await backend.close()
    })
  },
)
