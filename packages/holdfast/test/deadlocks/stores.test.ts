/** The same on stores that keep their lines in different ways, with two clients in one process. */

import { env } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import type { Locks } from '../../src/client/client.js'
import { connect } from '../../src/connect/connect.js'
import { LIMIT_MAX } from '../../src/core/line.js'

type Store = Parameters<typeof sharedStoreFor>[0]

/** More of them can be asked for; each is a server more to start. */
const NAMES = (env['HOLDFAST_TEST_STORES'] ?? 'memory,sqlite,redis').split(',') as Store[]

const stores = await Promise.all(NAMES.map(async (name) => ({ name, outcome: await sharedStoreFor(name) })))

const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'done',
    (error: unknown) => (error as { code?: unknown }).code,
  )

/** Ages that are closer to each other leave it open who is the youngest. */
const APART_MS = 1_500

interface Gate {
  readonly passed: Promise<void>
  open(): void
}

function gate(): Gate {
  let open = (): void => {}
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { passed, open: () => open() }
}

async function seen(
  locks: Locks,
  name: string,
  expected: { readonly holders?: number; readonly waiters?: number },
): Promise<void> {
  const look = (): ReturnType<Locks['inspect']> => locks.inspect(name)
  const isSo = async (): Promise<boolean> => {
    const { holders, waiters } = await look()
    return (
      holders.length === (expected.holders ?? holders.length) &&
      waiters.length === (expected.waiters ?? waiters.length)
    )
  }
  await until(`${name} has ${JSON.stringify(expected)}`, isSo, { state: look })
}

describe.each(stores)('$name', ({ outcome }) => {
  if (outcome.kind !== 'ready') {
    it.skip(`all of it (not run: ${outcome.reason})`, () => {})
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
    const gates = [gate(), gate()] as const
    const nest = (locks: Locks, outer: string, inner: string, { passed }: Gate): Promise<unknown> =>
      codeOf(
        locks.mutex(outer).run(async () => {
          await passed
          await locks.mutex(inner).run(() => {})
        }),
      )
    const outcomes = Promise.all([nest(one, 'a', 'b', gates[0]), nest(two, 'b', 'a', gates[1])])
    await seen(one, 'a', { holders: 1 })
    await seen(one, 'b', { holders: 1 })
    gates[0].open()
    await seen(one, 'b', { waiters: 1 })
    await sleep(APART_MS)
    gates[1].open()
    expect(await outcomes).toEqual(['done', 'DEADLOCK'])
    for (const name of ['a', 'b']) {
      expect(await one.inspect(name)).toMatchObject({ holders: [], waiters: [] })
    }
  })

  it('sees that a writer waits for all readers, and that a permit can still come free', async ({ skip }) => {
    const [one, two] = [await client(), await client()]
    if (one.guarantees.weights !== 'any' || one.guarantees.limitMax < LIMIT_MAX)
      skip('does not apply: the store has no readers and writers')
    const reader = await two.readWrite('rw').read().acquire()
    const gates = [gate(), gate(), gate(), gate()] as const
    const first = codeOf(
      one.mutex('m').run(async () => {
        await gates[0].passed
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
          await gates[1].passed
          await two.mutex('m').run(() => {})
        }),
    )
    await seen(one, 'm', { holders: 1 })
    await seen(one, 'rw', { holders: 2 })
    gates[0].open()
    await seen(one, 'rw', { waiters: 1 })
    await sleep(APART_MS)
    await reader.release()
    gates[1].open()
    expect(await Promise.all([first, second])).toEqual(['done', 'DEADLOCK'])
    const free = await two.semaphore('s', 2).acquire()
    const third = codeOf(
      one.mutex('n').run(async () => {
        await gates[2].passed
        await one.semaphore('s', 2).run(() => {}, { permits: 1 })
      }),
    )
    const fourth = codeOf(
      two.semaphore('s', 2).run(async () => {
        await gates[3].passed
        await two.mutex('n').run(() => {})
      }),
    )
    await seen(one, 'n', { holders: 1 })
    await seen(one, 's', { holders: 2 })
    gates[2].open()
    await seen(one, 's', { waiters: 1 })
    gates[3].open()
    await seen(one, 'n', { waiters: 1 })
    // Long enough for several looks, which must not take this for a deadlock.
    await sleep(1_000)
    await free.release()
    expect(await Promise.all([third, fourth])).toEqual(['done', 'done'])
  })
})
