import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { requiredStores, type StoreDefinition, StoreMissingError, storeFor, stores } from 'holdfast-servers'
import { describe, expect, it } from 'vitest'

const missing: StoreDefinition = {
  name: 'redis',
  start: async () => ({ kind: 'not run', name: 'redis', reason: 'redis-server is not installed' }),
}
const known = new Map([...stores, [missing.name, missing]])

describe('storeFor', () => {
  it('gives every embedded store a fresh URL', async () => {
    for (const name of ['memory', 'sqlite']) {
      const [first, second] = [await storeFor(name), await storeFor(name)]
      if (first.kind !== 'ready' || second.kind !== 'ready') throw new Error(`${name} is not there`)
      expect(first.store.url.startsWith(`${name}:`)).toBe(true)
      expect(first.store.url).not.toBe(second.store.url)
      await Promise.all([first.store.dispose(), second.store.dispose()])
    }
  })

  it('removes the folder of a SQLite store, also when asked twice', async () => {
    const outcome = await storeFor('sqlite')
    if (outcome.kind !== 'ready') throw new Error('sqlite is not there')
    const folder = dirname(outcome.store.url.slice('sqlite:'.length))
    expect(existsSync(folder)).toBe(true)
    await outcome.store.dispose()
    await outcome.store.dispose()
    expect(existsSync(folder)).toBe(false)
  })

  it('reports a store that cannot be had as not run, with the reason', async () => {
    const outcome = await storeFor('redis', known, {})
    expect(outcome).toEqual({ kind: 'not run', name: 'redis', reason: 'redis-server is not installed' })
  })

  it.each(['all', 'redis', 'sqlite, redis'])(
    'rejects it when HOLDFAST_REQUIRE_STORES is %s',
    async (setting) => {
      const outcome = storeFor('redis', known, { HOLDFAST_REQUIRE_STORES: setting })
      await expect(outcome).rejects.toThrow(StoreMissingError)
    },
  )

  it('requires only the stores that are named', async () => {
    const outcome = await storeFor('redis', known, { HOLDFAST_REQUIRE_STORES: 'sqlite' })
    expect(outcome.kind).toBe('not run')
  })

  it('refuses a name that no store has', async () => {
    await expect(storeFor('rediss', known, {})).rejects.toThrow("no store 'rediss'")
    expect(() => requiredStores('rediss', [...known.keys()])).toThrow("names 'rediss'")
  })
})
