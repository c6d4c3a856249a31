import { randomBytes } from 'node:crypto'
import { storeFor } from 'holdfast-servers'
import { afterAll, describe, expect, it } from 'vitest'
import { openRedis } from '../../src/backends/redis/open.js'
import { createLocks } from '../../src/client/client.js'
import { describeBackend, type OpenedStore } from '../../src/testing.js'
import { killWhileHolding } from './crash-child.js'

const server = await storeFor('redis')

/** One server for all cases, and keys of its own for each. */
async function open(baseUrl: string): Promise<OpenedStore> {
  const url = `${baseUrl}?recipe=set-nx&prefix=${randomBytes(6).toString('hex')}:`
  const operator = await createLocks(await openRedis(url))
  return {
    connect: async (options, wrap = (backend) => backend) => createLocks(wrap(await openRedis(url)), options),
    sever: async (name) => void (await operator.evict(name, { reason: 'severed by the suite' })),
    crash: (name, { ttlMs }) => killWhileHolding('./redis-crash-child.mjs', [url, name, String(ttlMs)]),
    async leftovers() {
      const names: string[] = []
      for await (const { resource } of operator.list()) names.push(resource)
      return names
    },
    close: () => operator.close(),
  }
}

if (server.kind === 'not run') {
  it.skip(`redis with the recipe set-nx conforms (not run: ${server.reason})`)
} else {
  const { store } = server
  afterAll(() => store.dispose())
  const summary = await describeBackend({ name: 'redis set-nx', describe, it, open: () => open(store.url) })

  it('left out only what the guarantees explain', () => {
    expect(summary.skipped.filter(({ by }) => by !== 'guarantee')).toEqual([])
    expect(summary.ran.length + summary.skipped.length).toBe(summary.total)
  })
}
