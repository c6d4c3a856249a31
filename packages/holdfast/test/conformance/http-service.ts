import { sharedStoreFor } from 'holdfast-servers'
import { createService } from 'holdfast-service'
import { afterAll, expect, it } from 'vitest'
import { describeBackend } from '../../src/testing.js'
import { conformanceRunner } from '../support/conformance-runner.js'
import { openCorner } from './http-stores.js'

/** Registers the suite over a service of this process, on one store. */
export async function describeService(store: string): Promise<void> {
  const outcome = await sharedStoreFor(store)
  if (outcome.kind === 'not run') {
    it.skip(`http over ${store} (not run: ${outcome.reason})`)
    return
  }
  const service = await createService({ url: outcome.store.url, listen: { host: '127.0.0.1', port: 0 } })
  const url = await service.listen()
  afterAll(async () => {
    await service.close({ drainMs: 0 })
    await outcome.store.dispose()
  })
  const name = `http over ${store}`
  const open = () => openCorner({ url: () => url })
  const summary = await describeBackend({ name, ...conformanceRunner, open })
  it(`${name}: ran every case`, () => {
    expect(summary.skipped).toEqual([])
    expect(summary.ran.length).toBe(summary.total)
  })
}
