import { afterAll, describe, it } from 'vitest'
import type { RecordStore } from '../../src/core/records.js'
import { expressAdapter } from './apps/express.js'
import { fastifyAdapter } from './apps/fastify.js'
import { fetchAdapter } from './apps/fetch.js'
import { honoAdapter } from './apps/hono.js'
import { HttpBench } from './bench.js'
import { httpCases } from './suite.js'

export const adapters = [expressAdapter, fastifyAdapter, honoAdapter, fetchAdapter]

/** The same requirements for each adapter, unchanged. */
export function describeAdapters(store: string, connect: () => Promise<RecordStore>): void {
  const benches = adapters.map((adapter) => ({ adapter, bench: new HttpBench(adapter, connect) }))
  afterAll(async () => {
    await Promise.all(benches.map(({ bench }) => bench.close()))
  })
  for (const { adapter, bench } of benches) {
    describe(`HTTP with ${adapter.name} over ${store}`, () => {
      for (const test of httpCases) if (test.waits !== true) it(test.title, () => test.run(bench))
    })
  }
  describe.concurrent(`HTTP over ${store}, with time to pass`, () => {
    for (const { adapter, bench } of benches) {
      for (const test of httpCases) {
        if (test.waits === true) it(`${test.title} (${adapter.name})`, () => test.run(bench))
      }
    }
  })
  describe(`HTTP over ${store}, after all of that`, () => {
    it.each(benches)('secrets are in no problem and no event of $adapter.name', ({ bench }) =>
      bench.expectNoSecrets(),
    )
  })
}
