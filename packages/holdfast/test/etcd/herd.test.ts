/** Many wait for one name, and every release wakes one of them. */

import { type EtcdServer, missingPrograms, missingReason, startEtcd } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { atDepth } from '../../../../test/support/depth.js'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { layoutFrom } from '../../src/backends/etcd/backend.js'
import { EtcdLink } from '../../src/backends/etcd/link.js'
import { EtcdNodes } from '../../src/backends/etcd/nodes.js'
import { LineBackend } from '../../src/backends/sessions/line-backend.js'
import type { LineNode } from '../../src/backends/sessions/nodes.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Sink } from '../../src/core/backend.js'
import type { Hold } from '../../src/core/hold.js'
import { RelayBackend } from '../../src/testing.js'
import { watchForStrays } from '../support/strays.js'
import { freshName, realGrpc } from './support.js'

const WAITERS = atDepth(100, 200)
const LONG_MS = 300_000
const missing = missingPrograms(['etcd'])

watchForStrays()

/** Counts how often somebody is woken: told to look again, or that it is its turn. */
class WakeCounter extends RelayBackend {
  static count = 0

  override open(sink: Sink): Promise<void> {
    return super.open({
      ...sink,
      granted: (claimId, fence) => {
        WakeCounter.count += 1
        sink.granted(claimId, fence)
      },
      hint: (resource) => {
        WakeCounter.count += 1
        sink.hint(resource)
      },
    })
  }
}

/** The fault: everybody watches the holder, instead of the one just ahead. */
class Herd extends EtcdNodes {
  #first: LineNode | null = null

  override async join(...args: Parameters<EtcdNodes['join']>): ReturnType<EtcdNodes['join']> {
    const joined = await super.join(...args)
    this.#first = joined.line[0] ?? null
    return joined
  }

  override async read(...args: Parameters<EtcdNodes['read']>): ReturnType<EtcdNodes['read']> {
    const read = await super.read(...args)
    this.#first = read?.line[0] ?? null
    return read
  }

  override watch(...[session, claim, nodes, changed]: Parameters<EtcdNodes['watch']>): () => void {
    return super.watch(session, claim, this.#first === null ? nodes : [this.#first], changed)
  }
}

describe.skipIf(missing.length > 0)(
  titled('a crowd', missing.length > 0 ? missingReason(missing) : null),
  () => {
    let server: EtcdServer
    beforeAll(async () => {
      server = await startEtcd()
    })
    afterAll(() => server.dispose())

    async function client(Nodes: typeof EtcdNodes): Promise<Locks> {
      const access = {
        endpoints: [`127.0.0.1:${server.port}`],
        tls: null,
        username: undefined,
        password: undefined,
      }
      const nodes = new Nodes(new EtcdLink(realGrpc, access, 30_000), layoutFrom({}))
      // Long leases, so that nothing but a push is a reason to ask.
      const options = { ttlMs: LONG_MS, waiterLeaseMs: LONG_MS, requestMs: 60_000 }
      const locks = await createLocks(new WakeCounter(new LineBackend(nodes)), options)
      onTestFinished(() => locks.close())
      return locks
    }

    /** Hands a lock through a crowd, and gives how many were woken by each of some releases. */
    async function wokenBy(
      Nodes: typeof EtcdNodes,
      waiters: number,
      releases: number,
    ): Promise<readonly number[]> {
      const name = freshName()
      const crowd = await Promise.all(Array.from({ length: waiters + 1 }, () => client(Nodes)))
      const holder = crowd[0] as Locks
      let hold = await holder.mutex(name).acquire()
      const arrived: Hold[] = []
      const stops: AbortController[] = []
      const failed: unknown[] = []
      const waiting = crowd.slice(1).map(async (locks) => {
        const stop = new AbortController()
        stops.push(stop)
        try {
          arrived.push(await locks.mutex(name).acquire({ signal: stop.signal }))
        } catch (error) {
          if (!stop.signal.aborted) failed.push(error)
        }
      })
      await until('all wait', async () => (await holder.inspect(name)).waiters.length === waiters)
      const woken: number[] = []
      for (let count = 0; count < releases; count += 1) {
        WakeCounter.count = 0
        const { fence } = hold
        await hold.release()
        await until('the next one has it', () => arrived.length === count + 1, {
          limitMs: 200_000,
          state: async () => ({ count, failed, line: await holder.inspect(name) }),
        })
        // Whoever else was woken has had the time to be.
        await new Promise((resolve) => setTimeout(resolve, 20))
        woken.push(WakeCounter.count)
        hold = arrived[count] as Hold
        expect(hold.fence).toBeGreaterThan(fence)
      }
      for (const stop of stops) stop.abort()
      await hold.release()
      await Promise.all(waiting)
      expect(failed).toEqual([])
      for (const late of arrived) await late.release()
      return woken
    }

    test(`of ${WAITERS} who wait each release wakes one and no other`, async () => {
      const woken = await wokenBy(EtcdNodes, WAITERS, WAITERS)
      expect(woken).toHaveLength(WAITERS)
      expect(Math.max(...woken)).toBe(1)
      // On a machine that is late, whoever is next may find out by itself before it is told.
      expect(woken.filter((count) => count === 1).length).toBeGreaterThan(WAITERS * 0.5)
    })

    test('a recipe in which all watch the holder is found out', async () => {
      const woken = await wokenBy(Herd, 20, 5)
      expect(Math.max(...woken)).toBeGreaterThan(10)
    })
  },
)
