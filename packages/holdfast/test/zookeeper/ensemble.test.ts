// @module-tag exclusion
/** What happens to holders while the servers lose each other. */

import { startZookeeperEnsemble, type ZookeeperEnsemble, type ZookeeperServer } from 'holdfast-servers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import type { Locks } from '../../src/client/client.js'
import { Believers } from '../support/believers.js'
import { clientOf, freshBase, isMissing, locksAt, TIMEOUT_MS, whyMissing } from './support.js'

const SESSION_MS = 5_000

let ensemble: ZookeeperEnsemble
let base: string
let clients: Locks[]

async function start(options: { cuttable?: boolean } = {}): Promise<void> {
  ensemble = await startZookeeperEnsemble(options)
}

beforeEach(() => {
  base = freshBase()
  clients = []
})
afterEach(async () => {
  await Promise.all(clients.map((locks) => locks.close()))
  await ensemble.dispose()
})

async function client(url = ensemble.url): Promise<Locks> {
  const locks = await locksAt(`${url}${base}?sessionMs=${SESSION_MS}`)
  clients.push(locks)
  return locks
}

/** Everything that is still there after all clients have gone. */
async function leftovers(server: ZookeeperServer): Promise<readonly string[]> {
  await Promise.all(clients.splice(0).map((locks) => locks.close()))
  const direct = await clientOf(server.port)
  const names = async (): Promise<readonly string[]> => {
    await direct.sync('/')
    return (await direct.children(`${base}/orders`)).names
  }
  await until('nothing is left', async () => (await names()).length === 0, { everyMs: 100, state: names })
  const left = await names()
  await direct.close()
  return left
}

describe.skipIf(isMissing)(titled('an ensemble of three', whyMissing), () => {
  it('loses its leader by a crash, and never two believe that they hold', async () => {
    await start()
    const believers = new Believers(await Promise.all([client(), client(), client(), client()]), 'orders')
    await believers.more(50)
    const leader = await ensemble.leader()
    await leader.kill()
    const next = await ensemble.failedOver(leader)
    await believers.more(50)
    await leader.restart()
    await believers.more(50)
    await believers.stop()
    expect(believers.faults).toEqual([])
    expect(await leftovers(next)).toEqual([])
  })

  it('has a leader that stands still and then goes on, and never two believe that they hold', async () => {
    await start()
    const believers = new Believers(await Promise.all([client(), client(), client(), client()]), 'orders')
    await believers.more(50)
    const leader = await ensemble.leader()
    await leader.pause()
    const next = await ensemble.failedOver(leader)
    await believers.more(50)
    await leader.resume()
    await believers.more(50)
    await believers.stop()
    expect(believers.faults).toEqual([])
    expect(await leftovers(next)).toEqual([])
  })

  it.each([true, false])(
    'has a server cut off (silently: %o), whose holder is told before the next one is in',
    async (silently) => {
      await start({ cuttable: true })
      const [follower] = (await ensemble.followers()) as [ZookeeperServer, ...ZookeeperServer[]]
      const others = ensemble.servers.filter((server) => server !== follower)
      const cutOff = await client(follower.url)
      const urls = others.map((server) => `127.0.0.1:${server.port}`)
      const other = await client(`zookeeper://${urls.join(',')}`)
      const hold = await cutOff.mutex('orders').acquire()
      ensemble.cut(follower, { silently })
      const wasTold = await other
        .mutex('orders')
        .run(() => hold.signal.aborted && !hold.isHeld, { waitMs: TIMEOUT_MS })
      expect(wasTold).toBe(true)
      ensemble.heal(follower)
      await ensemble.settled()
      expect(await leftovers(others[0] as ZookeeperServer)).toEqual([])
    },
  )
})
