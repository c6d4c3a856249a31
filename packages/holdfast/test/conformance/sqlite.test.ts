import { storeFor } from 'holdfast-servers'
import { expect, it } from 'vitest'
import { createLocks } from '../../src/client/client.js'
import { sqliteBackend } from '../../src/sqlite.js'
import { describeBackend, type OpenedStore } from '../../src/testing.js'
import { conformanceRunner } from '../support/conformance-runner.js'
import { killWhileHolding } from './crash-child.js'

async function open(): Promise<OpenedStore> {
  const outcome = await storeFor('sqlite')
  if (outcome.kind === 'not run') throw new Error(`sqlite was not run: ${outcome.reason}`)
  const { store } = outcome
  const path = store.url.slice('sqlite:'.length)
  const operator = await createLocks(sqliteBackend({ path }))
  return {
    connect: (options, wrap = (backend) => backend) => createLocks(wrap(sqliteBackend({ path })), options),
    sever: async (name) => void (await operator.evict(name, { reason: 'severed by the suite' })),
    crash: (name, { ttlMs }) => killWhileHolding('./sqlite-crash-child.mjs', [path, name, String(ttlMs)]),
    async leftovers() {
      const names: string[] = []
      for await (const { resource } of operator.list()) names.push(resource)
      return names
    },
    async close() {
      await operator.close()
      await store.dispose()
    },
  }
}

const summary = await describeBackend({ name: 'sqlite', ...conformanceRunner, open })

it('ran every case', () => {
  expect(summary.skipped).toEqual([])
  expect(summary.ran.length).toBe(summary.total)
})
