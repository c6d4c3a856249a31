// @module-tag secrets
// @module-tag limits
/** The sequences must be able to fail: each fault that is planted into the service is found. */

import { randomBytes } from 'node:crypto'
import { afterAll, describe, expect, it } from 'vitest'
import { buildService } from './mutants/bundle.js'
import { SERVICE_MUTANTS } from './mutants/list.js'
import { runSequences } from './run.js'

const REQUESTS = 1_200

describe('sequences of tenants', () => {
  const found: string[] = []

  afterAll(() => {
    process.stderr.write(`faults in the service that the sequences found:\n  ${found.join('\n  ')}\n`)
  })

  it.each(SERVICE_MUTANTS)('find that $name', async (mutant) => {
    const { createService, remove } = await buildService(mutant)
    try {
      const url = `memory:mutant-${randomBytes(6).toString('hex')}`
      const options = { createService, url, seed: 1, requests: REQUESTS, groups: 2, kinds: mutant.kinds }
      const report = await runSequences(options)
      const [first] = report.contradictions
      found.push(
        `${mutant.name}: after ${report.requests} requests, ${first?.text.slice(0, 120) ?? 'not found'}`,
      )
      expect(report.contradictions.map(({ kind }) => kind)).toContainEqual(
        expect.stringMatching(new RegExp(`^(${mutant.kinds.join('|')})$`)),
      )
    } finally {
      await remove()
    }
  })
})
