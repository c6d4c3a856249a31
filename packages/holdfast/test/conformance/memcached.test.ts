import { randomBytes } from 'node:crypto'
import { storeFor } from 'holdfast-servers'
import { afterAll, describe, expect, it } from 'vitest'
import { openMemcached } from '../../src/backends/memcached/open.js'
import { createLocks } from '../../src/client/client.js'
import { describeBackend, type OpenedStore } from '../../src/testing.js'
import { killWhileHolding } from './crash-child.js'

/** Keys of its own for each case, on the one server. */
async function open(url: string): Promise<OpenedStore> {
  const own = `${url}&prefix=${randomBytes(6).toString('hex')}:`
  const operator = await createLocks(await openMemcached(own))
  return {
    connect: async (settings, wrap = (backend) => backend) =>
      createLocks(wrap(await openMemcached(own)), settings),
    sever: async (name) => void (await operator.evict(name, { reason: 'severed by the suite' })),
    crash: (name, { ttlMs }) => killWhileHolding('./redis-crash-child.mjs', [own, name, String(ttlMs)]),
    async leftovers() {
      const names: string[] = []
      for await (const { resource } of operator.list()) names.push(resource)
      return names
    },
    close: () => operator.close(),
  }
}

const outcome = await storeFor('memcached')
if (outcome.kind === 'not run') {
  it.skip(`memcached record, memcached add (not run: ${outcome.reason})`)
} else {
  const { store } = outcome
  afterAll(() => store.dispose())
  for (const recipe of ['record', 'add']) {
    const name = `memcached ${recipe}`
    const summary = await describeBackend({
      name,
      describe,
      it,
      open: () => open(`${store.url}?recipe=${recipe}`),
    })
    it(`${name}: left out only what the guarantees explain`, () => {
      expect(summary.skipped.filter(({ by }) => by !== 'guarantee')).toEqual([])
      expect(summary.ran.length + summary.skipped.length).toBe(summary.total)
    })
  }
}
