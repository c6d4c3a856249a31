// @module-tag secrets
// @module-tag limits
// @module-tag exclusion
/** Hostile tenants: sequences of requests with several tokens, each answer checked against a model of who may hold what. */

import { randomBytes } from 'node:crypto'
import { sharedStoreFor } from 'holdfast-servers'
import { describe, expect, it } from 'vitest'
import { sizeOf } from '../../../../test/support/depth.js'
import { createService } from '../../src/service.js'
import { runSequences } from './run.js'

const REQUESTS = sizeOf('HOLDFAST_TENANTS', 2_000, 34_000)
const SEED = sizeOf('HOLDFAST_TENANTS_SEED', 1, Date.now() % 1_000_000)

describe.each(['memory', 'sqlite', 'redis'])('tenants of a service on %s', async (name) => {
  const outcome = name === 'memory' ? null : await sharedStoreFor(name)
  if (outcome !== null && outcome.kind !== 'ready') {
    it.skip(`all of it (not run: ${outcome.reason})`, () => {})
    return
  }

  it(`no answer to ${REQUESTS} requests contradicts the model (HOLDFAST_TENANTS_SEED=${SEED})`, async () => {
    const url = outcome === null ? `memory:tenants-${randomBytes(6).toString('hex')}` : outcome.store.url
    const report = await runSequences({ createService, url, seed: SEED, requests: REQUESTS })
    process.stderr.write(`tenants on ${name}, seed ${SEED}: ${report.describe()}\n`)
    await outcome?.store.dispose()
    expect(report.contradictions.slice(0, 10)).toEqual([])
    expect(report.serverErrors).toBe(report.explained504)
    expect(report.requests).toBeGreaterThanOrEqual(REQUESTS)
    for (const status of [200, 201, 400, 401, 403, 409, 410, 423, 429]) {
      expect(report.byStatus.get(status) ?? 0, `answers of ${status}`).toBeGreaterThan(0)
    }
  }, 3_600_000)
})
