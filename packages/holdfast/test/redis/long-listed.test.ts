// @module-tag limits
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, describe, expect, test } from 'vitest'
import { connect } from '../../src/connect/connect.js'

/** A queue of so many claims is a sorted set in Redis, and one of fewer is a text. */
const LONG = 60

describe('a long queue on Redis', async () => {
  const outcome = await sharedStoreFor('redis')
  if (outcome.kind !== 'ready') {
    test.skip(`all of it (not run: ${outcome.reason})`, () => {})
    return
  }
  const { store } = outcome
  afterAll(() => store.dispose())

  test('is listed beside short ones, with all of its holders', async () => {
    const clients = await Promise.all(Array.from({ length: LONG }, () => connect(store.url)))
    try {
      for (const locks of clients)
        await locks.semaphore('long', LONG * 2).acquire({ ttlMs: 60_000, note: 'n'.repeat(200) })
      await clients[0]?.mutex('short').acquire({ ttlMs: 60_000 })
      const listed: [string, number][] = []
      for await (const { resource, holders } of clients[0]?.list() ?? [])
        listed.push([resource, holders.length])
      expect(listed).toEqual([
        ['long', LONG],
        ['short', 1],
      ])
    } finally {
      for (const locks of clients) await locks.close()
    }
  })
})
