/** How many a release wakes, counted at the server. */

import { startZookeeper, type ZookeeperServer } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import type { Locks } from '../../src/client/client.js'
import type { Hold } from '../../src/core/hold.js'
import { counted, freshBase, isMissing, locksAt, TIMEOUT_MS, whyMissing } from './support.js'

const WAITERS = 200
const RELEASES = 20

let server: ZookeeperServer
beforeAll(async () => {
  if (isMissing) return
  server = await startZookeeper()
})
afterAll(() => server?.dispose())

interface Turn {
  readonly index: number
  readonly hold: Hold
}

interface Waiting {
  readonly clients: readonly Locks[]
  readonly first: Hold
  readonly turns: Map<number, Promise<Turn>>
}

/** A holder, and as many who wait, each with a session of its own. */
async function crowd(recipe: string): Promise<Waiting> {
  const url = `${server.url}${freshBase()}?recipe=${recipe}&sessionMs=30000`
  const clients = await Promise.all(Array.from({ length: WAITERS + 1 }, () => locksAt(url)))
  const [locks] = clients as [Locks, ...Locks[]]
  const first = await locks.mutex('orders').acquire()
  const before = await counted(server, 'watch_count')
  const waitFor = async (each: Locks, index: number): Promise<Turn> => {
    return { index, hold: await each.mutex('orders').acquire({ waitMs: TIMEOUT_MS }) }
  }
  const turns = new Map(clients.slice(1).map((each, index) => [index, waitFor(each, index)] as const))
  const watches = (): Promise<number> => counted(server, 'watch_count')
  await until('all watch', async () => (await watches()) >= before + WAITERS, { state: watches })
  return { clients, first, turns }
}

async function disperse({ clients, turns }: Waiting): Promise<void> {
  await Promise.all(clients.map((locks) => locks.close()))
  await Promise.allSettled(turns.values())
}

async function woken(): Promise<number> {
  return await counted(server, 'sum_node_deleted_watch_count')
}

describe.skipIf(isMissing)(titled(`${WAITERS} who wait for one name`, whyMissing), () => {
  it('are woken one at a time by `sequential`, each by the release just before it', async () => {
    const waiting = await crowd('sequential')
    let holder = waiting.first
    for (let round = 0; round < RELEASES; round += 1) {
      const before = await woken()
      await holder.release()
      const { index, hold } = await Promise.race(waiting.turns.values())
      expect((await woken()) - before).toBe(1)
      waiting.turns.delete(index)
      holder = hold
    }
    await disperse(waiting)
  })

  it('are all woken by each release of `ephemeral`, which the same count shows', async () => {
    const waiting = await crowd('ephemeral')
    const before = await woken()
    await waiting.first.release()
    await Promise.race(waiting.turns.values())
    expect((await woken()) - before).toBe(WAITERS)
    await disperse(waiting)
  })
})
