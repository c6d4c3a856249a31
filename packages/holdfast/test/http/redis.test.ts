// @module-tag effects
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, it } from 'vitest'
import { connectRecords } from '../../src/idempotency.js'
import { describeAdapters } from './describe-adapters.js'

const outcome = await sharedStoreFor('redis')
if (outcome.kind === 'not run') {
  it.skip(`HTTP over Redis (not run: ${outcome.reason})`)
} else {
  const { store } = outcome
  afterAll(() => store.dispose())
  describeAdapters('Redis', () => connectRecords(store.url))
}
