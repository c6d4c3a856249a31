/** The page about metrics, against what the service and the library really show. */

import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'holdfast'
import { connectIdempotency } from 'holdfast/idempotency'
import { createService, type Service } from 'holdfast-service'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ParsedFamily, parseExposition } from '../../packages/holdfast/test/observe/exposition-parser.js'

const page = await readFile(new URL('../../docs/observability.md', import.meta.url), 'utf8')
const folder = await mkdtemp(join(tmpdir(), 'holdfast-observability-'))
let service: Service
let url: string

beforeAll(async () => {
  service = await createService({ url: `sqlite:${folder}/locks.db`, listen: { port: 0 } })
  url = await service.listen()
})

afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

/** The library in the same process, so that its numbers are on the same page. */
async function useLibrary(): Promise<void> {
  const locks = await connect('memory:')
  // A lock is handed over only within some milliseconds, which a busy machine may miss.
  await toBeShown('holdfast_handovers_total', async () => {
    const hold = await locks.mutex('x').acquire()
    const next = locks.mutex('x').acquire()
    await hold.release()
    const last = await next
    expect(await locks.mutex('x').tryAcquire()).toBeNull()
    await last.release()
  })
  await locks.mutex('y', { ttlMs: 3_000 }).run(() => toBeShown('holdfast_renew_lag_seconds'))
  await locks.close()
  const idempotency = await connectIdempotency('memory:')
  await idempotency.run({ scope: { tenant: 't', operation: 'o' }, key: 'k' }, () => 1)
  await idempotency.close()
}

/** Somebody asks for a lock that is held, and goes away before the answer. */
async function hangUp(): Promise<void> {
  const ask = (waitMs: number, signal: AbortSignal | null): Promise<Response> =>
    fetch(`${url}/v1/locks/x/acquire`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ waitMs }),
      signal,
    })
  expect((await ask(0, null)).status).toBe(200)
  await expect(ask(30_000, AbortSignal.timeout(500))).rejects.toThrow()
  await toBeShown('holdfast_http_hang_ups_total')
}

async function toBeShown(name: string, doIt = async (): Promise<void> => {}): Promise<void> {
  const count = async (): Promise<number> => {
    await doIt()
    return (await scrape()).get(name)?.samples.length ?? 0
  }
  await expect.poll(count, { timeout: 30_000 }).toBeGreaterThan(0)
}

async function scrape(): Promise<Map<string, ParsedFamily>> {
  return parseExposition(await (await fetch(`${url}/metrics`)).text(), 'prometheus')
}

/** The labels of each metric as the page tells them: in the rows of its table, and in brackets where it only lists. */
function toldLabels(): Map<string, string[]> {
  const words = (text: string): string[] => [...text.matchAll(/`(\w+)`/g)].map(([, word = '']) => word)
  const told = new Map<string, string[]>()
  for (const [, metrics = '', labels = ''] of page.matchAll(/^\| (`holdfast_[^|]*) \| ([^|]*) \|/gm)) {
    for (const metric of words(metrics)) told.set(metric, words(labels))
  }
  for (const [, metric = '', labels = ''] of page.matchAll(
    /`(holdfast_(?:http|store)_\w+)`(?:\s\(([^)]*)\))?/g,
  )) {
    told.set(metric, words(labels))
  }
  return told
}

describe('docs/observability.md', () => {
  it('tells of every metric, with the labels that it has', async () => {
    await useLibrary()
    await hangUp()
    const shown = [...(await scrape()).values()].map(({ name, samples }) => {
      const labels = new Set(samples.flatMap((sample) => [...sample.labels.keys()]))
      labels.delete('le')
      return [name, [...labels].sort()]
    })
    const told = [...toldLabels()].map(([name, labels]) => [name, labels.sort()])
    expect(Object.fromEntries(told)).toEqual(Object.fromEntries(shown))
  })
})
