/**
 * What `run()` promises, on one store. Each test has the number of the requirement that it stands for; several processes
 * are needed for 2, 4 and 6, which are tested elsewhere and here only as far as one process can.
 */

import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, describe, it } from 'vitest'
import { connectRecords } from '../../../src/connect/records.js'
import type { RecordStore } from '../../../src/core/records.js'
import { later } from '../../../src/testing/conformance/waiting.js'
import { abandonment } from './abandonment.js'
import { RunBench, type RunCase } from './bench.js'
import { comparing } from './comparing.js'
import { completing } from './completing.js'
import { keeping } from './keeping.js'
import { losing } from './losing.js'
import { describeNetwork } from './network.js'
import { outages } from './outages.js'
import { running } from './running.js'
import { settling } from './settling.js'
import { showing } from './showing.js'

const CASES: readonly RunCase[] = [
  ...running,
  ...comparing,
  ...completing,
  ...abandonment,
  ...settling,
  ...losing,
  ...outages,
  ...keeping,
  ...showing,
].toSorted((one, other) => Number.parseInt(one.title, 10) - Number.parseInt(other.title, 10))

const LANES = 8

/** Registers the tests on a server, or says that it was not run. `urlFor` gives a fresh part of the store. */
export async function describeRun(store: string, urlFor = (url: string): string => url): Promise<void> {
  const outcome = await sharedStoreFor(store)
  if (outcome.kind === 'not run') {
    it.skip(`run() over ${store} (not run: ${outcome.reason})`)
    return
  }
  afterAll(() => outcome.store.dispose())
  const url = urlFor(outcome.store.url)
  describeNetwork(store, url, await describeRunOver(store, () => connectRecords(url)))
}

export async function describeRunOver(name: string, connect: () => Promise<RecordStore>): Promise<RunBench> {
  const bench = await RunBench.open(connect)
  const started = new Map<RunCase, Promise<void>>()
  const waiting = CASES.filter(({ waits, applies }) => waits === true && applies?.(bench.traits) !== false)
  const outcomeOf = (each: RunCase): Promise<void> => {
    if (each.waits !== true) return each.run(bench)
    // The first of them starts all, because each waits most of the time.
    if (started.size === 0) startAll(waiting, bench, started)
    return started.get(each) ?? each.run(bench)
  }
  afterAll(() => bench.close())
  describe(`run() over ${name}`, () => {
    for (const each of CASES) {
      if (each.applies?.(bench.traits) === false) it.skip(`${each.title} (does not apply to its traits)`)
      else it(each.title, () => outcomeOf(each))
    }
    it('told nobody a key, an input or a result', () => bench.checkSecrecy())
  })
  return bench
}

/** Some at a time: all at once, they would be busy with each other's beginnings while their leases run. */
function startAll(cases: readonly RunCase[], bench: RunBench, started: Map<RunCase, Promise<void>>): void {
  const lanes: Promise<unknown>[] = Array.from({ length: LANES }, () => Promise.resolve())
  for (const [index, one] of cases.entries()) {
    const lane = index % LANES
    const outcome = later((lanes[lane] ?? Promise.resolve()).then(() => one.run(bench)))
    started.set(one, outcome)
    lanes[lane] = Promise.allSettled([outcome])
  }
}
