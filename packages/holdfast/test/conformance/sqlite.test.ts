import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createLocks } from '../../src/client/client.js'
import { sqliteBackend } from '../../src/sqlite.js'
import { describeBackend, type OpenedStore } from '../../src/testing.js'
import { killWhileHolding } from './crash-child.js'

async function open(): Promise<OpenedStore> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-conformance-'))
  const path = join(folder, 'locks.db')
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
      await rm(folder, { recursive: true })
    },
  }
}

const summary = await describeBackend({ name: 'sqlite', describe, it, open })

it('ran every case', () => {
  expect(summary.skipped).toEqual([])
  expect(summary.ran.length).toBe(summary.total)
})
