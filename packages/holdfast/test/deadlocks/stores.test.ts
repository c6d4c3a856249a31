/** The same on stores that keep their lines in different ways, with two clients in one process. */

import { env } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { storeFor } from 'holdfast-servers'
import { afterAll, describe, expect, it } from 'vitest'
import type { Locks } from '../../src/client/client.js'
import { connect } from '../../src/connect/connect.js'
import { LIMIT_MAX } from '../../src/core/line.js'

type Store = Parameters<typeof storeFor>[0]

/** More of them can be asked for; each is a server more to start. */
const NAMES = (env['HOLDFAST_TEST_STORES'] ?? 'memory,sqlite,redis').split(',') as Store[]

const stores = await Promise.all(NAMES.map(async (name) => ({ name, outcome: await storeFor(name) })))

const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'done',
    (error: unknown) => (error as { code?: unknown }).code,
  )

describe.each(stores)('$name', ({ outcome }) => {
  if (outcome.kind !== 'ready') {
    it.skip(`not run, because ${outcome.reason}`, () => {})
    return
  }
  const { url } = outcome.store
  const clients: Locks[] = []
  afterAll(async () => {
    await Promise.all(clients.map((locks) => locks.close()))
    await outcome.store.dispose()
  })

  async function client(): Promise<Locks> {
    const options = {
      deadlocks: 'detect',
      deadlockCheckMs: 200,
      outageMs: 60_000,
      requestMs: 30_000,
    } as const
    const locks = await connect(url, options)
    await locks.migrate()
    clients.push(locks)
    return locks
  }

  it('gives up one wait of two, the younger where that is clear, and frees its place', async () => {
    const [one, two] = [await client(), await client()]
    const nest = (locks: Locks, outer: string, inner: string, afterMs: number): Promise<unknown> =>
      codeOf(
        locks.mutex(outer).run(async () => {
          await sleep(afterMs)
          await locks.mutex(inner).run(() => {})
        }),
      )
    expect(await Promise.all([nest(one, 'a', 'b', 500), nest(two, 'b', 'a', 2_000)])).toEqual([
      'done',
      'DEADLOCK',
    ])
    for (const name of ['a', 'b']) {
      expect(await one.inspect(name)).toMatchObject({ holders: [], waiters: [] })
    }
  })

  it('sees that a writer waits for all readers, and that a permit can still come free', async ({ skip }) => {
    const [one, two] = [await client(), await client()]
    if (one.guarantees.weights !== 'any' || one.guarantees.limitMax < LIMIT_MAX) skip()
    const reader = await two.readWrite('rw').read().acquire()
    const first = codeOf(
      one.mutex('m').run(async () => {
        await sleep(500)
        await one
          .readWrite('rw')
          .write()
          .run(() => {})
      }),
    )
    const second = codeOf(
      two
        .readWrite('rw')
        .read()
        .run(async () => {
          await sleep(1_500)
          await two.mutex('m').run(() => {})
        }),
    )
    await sleep(1_000)
    await reader.release()
    expect(await Promise.all([first, second])).toEqual(['done', 'DEADLOCK'])
    const free = await two.semaphore('s', 2).acquire()
    const third = codeOf(
      one.mutex('n').run(async () => {
        await sleep(300)
        await one.semaphore('s', 2).run(() => {}, { permits: 1 })
      }),
    )
    const fourth = codeOf(
      two.semaphore('s', 2).run(async () => {
        await sleep(600)
        await two.mutex('n').run(() => {})
      }),
    )
    await sleep(1_500)
    await free.release()
    expect(await Promise.all([third, fourth])).toEqual(['done', 'done'])
  })
})
