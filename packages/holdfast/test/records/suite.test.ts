// @module-tag effects
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { MemoryRecords } from '../../src/backends/memory/records.js'
import { CellRecords } from '../../src/backends/shared/cell-records.js'
import type { RecordStore } from '../../src/core/records.js'
import { describeRecords } from '../../src/testing.js'
import { CollectingRunner } from '../conformance/collecting-runner.js'
import { MISTAKES } from './planted-mistakes.js'
import { playsByTheRule } from './random-histories.js'

/** The store with some of its methods replaced. */
function changed(sound: RecordStore, changes: Partial<RecordStore>): RecordStore {
  return new Proxy(sound, {
    get(target, name) {
      const value: unknown = Reflect.get(changes, name) ?? Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** One case of the suite over the memory of one process, ready to be run. */
async function only(
  title: string,
  wrap: (sound: RecordStore) => RecordStore,
  caseLimitMs = 7_000,
): Promise<() => Promise<void>> {
  const cells = new MemoryRecords()
  const runner = new CollectingRunner()
  const { describe: group, it: collect } = runner
  await describeRecords({
    name: 'memory',
    describe: group,
    it: collect,
    afterAll: () => undefined,
    open: async () => ({ connect: async () => wrap(new CellRecords(cells)), close: async () => {} }),
    caseLimitMs,
  })
  const found = runner.cases.find((each) => each.title === title && !each.skipped)
  if (found === undefined) throw new Error(`The suite has no case: ${title}`)
  return found.body
}

describe('a mistake that is planted makes the suite of records fail', () => {
  for (const { mistake, caughtBy, plant } of MISTAKES) {
    it.concurrent(mistake, async () => {
      const run = await only(caughtBy, (sound) => changed(sound, plant(sound)))
      await expect(run()).rejects.toThrow()
    })
  }
})

describe('the suite of records', () => {
  it('starts the case of renewals again if the machine stalls for longer than a lease', async () => {
    const title = 'renewals keep a claim for several leases, also where its retention is shorter'
    const keys = new Set<string>()
    const stalled = (sound: RecordStore): RecordStore =>
      changed(sound, {
        renew: async (asks) => {
          for (const { key } of asks) keys.add(key)
          if (keys.size === 1) await sleep(2 * (asks[0]?.leaseMs ?? 0))
          return await sound.renew(asks)
        },
      })
    const run = await only(title, stalled, 120_000)
    await run()
    expect(keys.size).toBeGreaterThan(1)
  })
})

describe('a mistake that is planted makes random histories fail', () => {
  it.each(MISTAKES.filter(({ mistake }) => /fence|request|repeated is|removes the/.test(mistake)))(
    '$mistake',
    async ({ plant }) => {
      const cells = new MemoryRecords()
      const store = new CellRecords(cells)
      await store.open()
      const faulty = changed(store, plant(store))
      await expect(playsByTheRule([faulty, faulty], { runs: 300 })).rejects.toThrow()
    },
  )
})
