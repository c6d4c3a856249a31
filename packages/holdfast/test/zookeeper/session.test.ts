/** Sessions that end while their process lives, and requests of which nobody knows what became. */

import { setTimeout as sleep } from 'node:timers/promises'
import { startProxy, startZookeeper, type TcpProxy, type ZookeeperServer } from 'holdfast-servers'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import type { ZookeeperSession } from '../../src/backends/zookeeper/session.js'
import { type ZooKeeper, ZooKeeperError } from '../../src/backends/zookeeper/wire/zookeeper.js'
import type { Locks } from '../../src/client/client.js'
import { LockLostError } from '../../src/core/errors.js'
import {
  clientOf,
  counted,
  freshBase,
  isMissing,
  locksAt,
  mortalLocks,
  TIMEOUT_MS,
  whyMissing,
} from './support.js'

const SIDES = 10
const LOOPS = 100

let server: ZookeeperServer
let direct: ZooKeeper
let base: string
const opened: { close(): Promise<void> }[] = []
beforeAll(async () => {
  if (isMissing) return
  server = await startZookeeper()
  direct = await clientOf(server.port)
})
afterAll(async () => {
  await direct?.close()
  await server?.dispose()
})
beforeEach(() => {
  base = freshBase()
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.close()))
})

async function connected(url: string): Promise<Locks> {
  const locks = await locksAt(url)
  opened.push(locks)
  return locks
}

async function children(name = 'orders'): Promise<readonly string[]> {
  return (await direct.children(`${base}/${name}`)).names
}

describe.skipIf(isMissing)(titled('a session that ends', whyMissing), () => {
  it(`takes its locks along, ${SIDES} times ${LOOPS} times, and what it left is never taken for our own`, async () => {
    const sides = Array.from({ length: SIDES }, (_, index) => expireAndReacquire(`orders-${index}`))
    const counts = await Promise.all(sides)
    for (const sessions of counts) expect(sessions).toBeGreaterThan(LOOPS)
    await until('no session is left but the one that looks', async () => {
      return (await counted(server, 'global_sessions')) === 1
    })
  })

  /** Ends the session of a holder again and again, and takes the lock anew at once. Gives how many sessions it took. */
  async function expireAndReacquire(name: string): Promise<number> {
    const { locks, sessions, endSession } = await mortalLocks(server.port, base)
    let last = 0n
    for (let loop = 0; loop < LOOPS; loop += 1) {
      const hold = await locks.mutex(name).acquire({ waitMs: TIMEOUT_MS })
      expect((hold.fence as bigint) > last).toBe(true)
      last = hold.fence as bigint
      await endSession()
      await using next = await locks.mutex(name).acquire({ waitMs: TIMEOUT_MS })
      expect(hold.isHeld).toBe(false)
      expect(hold.signal.reason).toBeInstanceOf(LockLostError)
      next.assertHeld()
      await hold.release()
    }
    expect(await children(name)).toEqual([])
    await locks.close()
    return sessions.length
  }

  it('has told its holder before anybody else is let in', async () => {
    const proxy = await startProxy(server.port)
    opened.push({ close: () => proxy.dispose() })
    const cutOff = await connected(`zookeeper://127.0.0.1:${proxy.port}${base}?sessionMs=3000`)
    const other = await connected(`${server.url}${base}?sessionMs=3000`)
    const hold = await cutOff.mutex('orders').acquire()
    proxy.hold(true)
    const wasTold = await other
      .mutex('orders')
      .run(() => hold.signal.aborted && !hold.isHeld, { waitMs: TIMEOUT_MS })
    expect(wasTold).toBe(true)
    proxy.hold(false)
    await until('nothing of the old session is left', async () => (await children()).length === 0)
  })
})

describe.skipIf(isMissing)(titled('a request without an answer', whyMissing), () => {
  let proxy: TcpProxy
  let locks: Locks
  beforeEach(async () => {
    proxy = await startProxy(server.port)
    opened.push({ close: () => proxy.dispose() })
    locks = await connected(`zookeeper://127.0.0.1:${proxy.port}${base}?sessionMs=6000`)
    // The folder is there, so that the next thing to get lost is the node.
    await locks.mutex('orders').run(async () => {})
  })

  it('leaves one node of a claim, which is found again', async () => {
    proxy.dropReplies(true)
    const acquiring = locks.mutex('orders').acquire({ waitMs: TIMEOUT_MS })
    await until('the node is made', async () => (await children()).length === 1)
    proxy.cut()
    proxy.dropReplies(false)
    const hold = await acquiring
    hold.assertHeld()
    expect((await children()).length).toBe(1)
    await hold.release()
    await until('nothing is left', async () => (await children()).length === 0)
  })

  it('leaves nothing, if it is carried out after its claim was given up', async () => {
    const keeper = await locks.mutex('other').acquire()
    proxy.hold(true)
    const acquiring = locks.mutex('orders').acquire({ waitMs: 500 })
    await expect(acquiring).rejects.toThrow()
    proxy.hold(false)
    await keeper.release()
    await until('nothing is left', async () => (await children()).length === 0)
    await using again = await locks.mutex('orders').acquire({ waitMs: TIMEOUT_MS })
    again.assertHeld()
  })

  it('does not keep a lock whose giving up it was', async () => {
    const hold = await locks.mutex('orders').acquire()
    proxy.refuse(true)
    proxy.cut()
    const released = hold.release()
    await sleep(300)
    proxy.refuse(false)
    await released
    await until('the node is gone', async () => (await children()).length === 0)
    await using again = await locks.mutex('orders').acquire({ waitMs: TIMEOUT_MS })
    again.assertHeld()
  })
})

describe.skipIf(isMissing)(titled('a question that fails when the node is made already', whyMissing), () => {
  it.each([
    ['is lost', 'CONNECTION_LOSS', true],
    ['is refused', 'SYSTEM_ERROR', false],
  ] as const)('%s, and leaves the claim one node at most', async (_how, code, goesOn) => {
    const other = await connected(`${server.url}${base}?sessionMs=6000`)
    const writer = await other.readWrite('orders').write().acquire()
    const { locks, sessions } = await mortalLocks(server.port, base)
    opened.push(locks)
    await locks.mutex('first').run(async () => {})
    const { client } = sessions[0] as ZookeeperSession
    const getData = client.getData.bind(client)
    // The reader looks into the node of the writer, to see whether it has become a reader.
    client.getData = () => {
      client.getData = getData
      return Promise.reject(new ZooKeeperError(code, 'planted', { wasSent: true }))
    }
    const reading = locks.readWrite('orders').read().acquire({ waitMs: TIMEOUT_MS })
    if (goesOn) {
      await until('the reader waits', async () => (await children()).length === 2)
      // It asks again, and finds its node.
      await sleep(1_000)
      expect((await children()).length).toBe(2)
      await writer.release()
      await (await reading).release()
    } else {
      await expect(reading).rejects.toThrow('planted')
      await writer.release()
    }
    await until('nothing is left', async () => (await children()).length === 0)
  })
})

describe.skipIf(isMissing)(titled('a folder that somebody removes', whyMissing), () => {
  it('is made again', async () => {
    const locks = await connected(`${server.url}${base}?sessionMs=6000`)
    for (let round = 0; round < 20; round += 1) {
      await locks.mutex('orders').run(async () => {})
      await direct.delete(`${base}/orders`)
    }
  })

  it('is not taken for a lock that is held, if all its nodes were removed as well', async () => {
    const locks = await connected(`${server.url}${base}?sessionMs=6000`)
    const hold = await locks.mutex('orders').acquire({ ttlMs: 3_000 })
    for (const name of await children()) await direct.delete(`${base}/orders/${name}`)
    await direct.delete(`${base}/orders`)
    await until('the signal of the hold aborts', async () => hold.signal.aborted)
    expect((hold.signal.reason as LockLostError).reason).toBe('evicted')
  })
})
