/**
 * What `run()` promises where several processes use one store, and some of them die or stand still. Titles begin with the
 * number of the requirement, where there is one.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { isDeep } from '../../../../../test/support/depth.js'
import { recordKeyOf } from '../../../src/idempotency/keys.js'
import { connectIdempotency, type Idempotency, type Target } from '../../../src/idempotency.js'
import { crashing, stalling } from './crashes.js'
import { Crew } from './crew.js'
import { duplicated } from './duplicates.js'

/** Long enough to be kept on a machine that has other things to do, and short enough to be waited for. */
const LEASE_MS = 1_500

const DEEP_MS = 3_600_000

export interface ProcessBench {
  readonly crew: Crew
  /** A client in this process, which looks and does no work. */
  readonly observer: Idempotency
  recordKeyOf(target: Target): string
}

export interface ProcessCase {
  readonly title: string
  run(bench: ProcessBench): Promise<void>
}

/** Registers the tests on a server, or says that it was not run. `urlFor` gives a fresh part of the store. */
export async function describeProcesses(store: string, urlFor = (url: string): string => url): Promise<void> {
  const outcome = await sharedStoreFor(store)
  if (outcome.kind === 'not run') {
    it.skip(`processes over ${store} (not run: ${outcome.reason})`)
    return
  }
  afterAll(() => outcome.store.dispose())
  const url = urlFor(outcome.store.url)
  describe(`run() in several processes over ${store}`, () => {
    let observer: Idempotency
    let folder: string
    const crews: Crew[] = []
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'holdfast-processes-'))
      observer = await connectIdempotency(url)
      await observer.migrate()
    })
    afterAll(async () => {
      await Promise.all(crews.map((crew) => crew.close()))
      await observer?.close()
      await rm(folder, { recursive: true, force: true })
    })
    const begun = async (): Promise<ProcessBench> => {
      const own = await mkdtemp(join(folder, 'crew-'))
      const { leaseMinMs, leaseMaxMs } = observer.store.traits
      const crew = await Crew.begin(url, Math.min(Math.max(LEASE_MS, leaseMinMs), leaseMaxMs), own)
      crews.push(crew)
      return { crew, observer, recordKeyOf: (target) => recordKeyOf('default', target) }
    }
    let shared: Promise<ProcessBench> | null = null
    const start = async (each: ProcessCase): Promise<void> => {
      shared ??= begun()
      await each.run(await shared)
    }
    // Each of these waits for a lease to end, so they wait together.
    for (const each of crashing) it.concurrent(each.title, () => start(each))
    for (const each of stalling) {
      // A process that is stopped inside a transaction of SQLite blocks all others, so there these cases run alone.
      if (store === 'sqlite') it(each.title, () => start(each))
      else it.concurrent(each.title, () => start(each))
    }
    for (const each of duplicated) {
      it(each.title, async () => each.run(await begun()), isDeep ? DEEP_MS : undefined)
    }
  })
}
