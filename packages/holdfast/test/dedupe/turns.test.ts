// @module-tag effects
/** Calls that wait for their turn on a connection behind a call that does not end. */

import { AsyncResource } from 'node:async_hooks'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { until, within } from '../../../../test/support/wait.js'
import { systemRuntime } from '../../src/client/system.js'
import { inTurn } from '../../src/dedupe/turns.js'
import { dedupe } from '../../src/dedupe.js'
import { VirtualRuntime } from '../../src/testing/virtual-time.js'
import { describeSql, errorOf } from '../support/sql-stores.js'
import { freshKey, inTx, makeTables, order, SCOPE, withConnection } from './support.js'

const MAX_MS = 30_000

function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open: () => void = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

describe('a call that waits for its turn', () => {
  const stuck = new Error('stuck')
  const limit = { maxMs: MAX_MS, stuck: () => stuck }

  it('is rejected when no call before it ends, leaves the queue, and lets later calls run', async () => {
    const runtime = new VirtualRuntime()
    const [connection, ending, ran] = [{}, gate(), [] as string[]]
    const call = (name: string): Promise<unknown> =>
      inTurn(connection, limit, async () => void ran.push(name), runtime)
    const first = inTurn(connection, limit, () => ending.opened, runtime)
    const second = errorOf(call('second'))
    await runtime.time.advance(MAX_MS - 1)
    const third = call('third')
    await runtime.time.advance(1)
    expect(await within('the second call is rejected', second)).toBe(stuck)
    ending.open()
    await first
    await within('the third call runs', third)
    expect([ran, runtime.time.pending]).toEqual([['third'], 0])
  })

  it('waits for any number of calls before it as long as they end', async () => {
    const runtime = new VirtualRuntime()
    const [connection, ran] = [{}, [] as number[]]
    const work = async (index: number): Promise<void> => {
      await new Promise<void>((resolve) => void runtime.timers.start(MAX_MS - 1, resolve, true))
      ran.push(index)
    }
    const indexes = [0, 1, 2, 3, 4]
    const calls = Promise.all(indexes.map((index) => inTurn(connection, limit, () => work(index), runtime)))
    await runtime.time.advance(5 * MAX_MS)
    await within('all calls run', calls)
    expect([ran, runtime.time.pending]).toEqual([indexes, 0])
  })
})

await describeSql(
  'on one connection',
  (store) => {
    let runtime = new VirtualRuntime()
    beforeAll(() => makeTables(store))
    beforeEach(() => {
      runtime = new VirtualRuntime()
      vi.spyOn(systemRuntime.timers, 'start').mockImplementation((...timer) => runtime.timers.start(...timer))
      vi.spyOn(systemRuntime.clock, 'monotonicMs').mockImplementation(() => runtime.clock.monotonicMs())
    })
    afterEach(() => {
      vi.restoreAllMocks()
    })

    const MESSAGE = /never ends: close the connection.*AsyncResource\.bind.*`waitMs`/

    it('a call behind a function that never ends is rejected, and the next one runs when it has ended', async () => {
      await withConnection(store, async (tx) => {
        const [hanging, behind, patient] = [freshKey(), freshKey(), freshKey()]
        const [started, ending] = [gate(), gate()]
        await inTx(store, tx, async () => {
          const first = dedupe(tx.client, { scope: SCOPE, key: hanging }, async () => {
            started.open()
            await ending.opened
          })
          await started.opened
          const rejected = errorOf(order(tx, behind, 1, { waitMs: 0 }))
          const waiting = order(tx, patient, 1, { waitMs: MAX_MS * 2 })
          await runtime.time.advance(MAX_MS)
          const error = await within('the call behind is rejected', rejected, { limitMs: 20_000 })
          expect(error).toMatchObject({ code: 'LOCK_TIMEOUT', message: expect.stringMatching(MESSAGE) })
          ending.open()
          expect([await first, await waiting]).toMatchObject([{ replayed: false }, { replayed: false }])
          expect(await order(tx, behind)).toMatchObject({ replayed: false })
        })
      })
    })

    it('a nested call that has lost its async context is rejected, and the outer call goes on', async () => {
      await withConnection(store, async (tx) => {
        const [outer, inner] = [freshKey(), freshKey()]
        const earlier = new AsyncResource('registered before the call')
        let error: unknown = null
        const running = inTx(store, tx, () =>
          dedupe(tx.client, { scope: SCOPE, key: outer }, async () => {
            error = await errorOf(earlier.runInAsyncScope(() => order(tx, inner)))
          }),
        )
        await until('the inner call waits', () => runtime.time.pending === 1, { limitMs: 20_000 })
        await runtime.time.advance(MAX_MS)
        expect(await within('the outer call ends', running)).toMatchObject({ replayed: false })
        expect(error).toMatchObject({ code: 'LOCK_TIMEOUT', message: expect.stringMatching(MESSAGE) })
        expect(await inTx(store, tx, () => order(tx, inner))).toMatchObject({ replayed: false })
      })
    })
  },
  ['sqlite'],
)
