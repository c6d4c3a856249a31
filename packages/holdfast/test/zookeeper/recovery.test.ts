/** What a client can do again once the servers answer again. */

import { startProxy, startZookeeper, type ZookeeperServer } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import { Connections } from '../../src/backends/zookeeper/connections.js'
import { openZookeeper } from '../../src/backends/zookeeper/open.js'
import { ZooKeeper } from '../../src/backends/zookeeper/wire/zookeeper.js'
import type { Claim } from '../../src/core/backend.js'
import { BackendUnavailableError, OutcomeUnknownError } from '../../src/core/errors.js'
import { clientOf, endSession, freshBase, isMissing, TIMEOUT_MS, whyMissing } from './support.js'

const PATIENCE = { waitMs: TIMEOUT_MS, leaseMs: 10_000 }
/** More often than this, nobody has to look at one claim. */
const LOOKS_MAX = 10_000

let server: ZookeeperServer
let direct: ZooKeeper
beforeAll(async () => {
  if (isMissing) return
  server = await startZookeeper()
  direct = await clientOf(server.port)
})
afterAll(async () => {
  await direct?.close()
  await server?.dispose()
})

/** One that throws when it is looked at without end: such a loop would keep a test from ever failing. */
function claimOf(id: string): Claim {
  let looks = 0
  return {
    get id() {
      looks += 1
      if (looks > LOOKS_MAX) throw new Error(`The claim ${id} is looked at again and again.`)
      return id
    },
    resource: 'orders',
    shape: { kind: 'mutex', limit: 1 },
    weight: 1,
    ttlMs: 10_000,
    owner: { host: 'h', pid: 1, client: 'c' },
    note: null,
  }
}

describe.skipIf(isMissing)(titled('a lock that came too late, and could not be given up', whyMissing), () => {
  it('is given up when the name is wanted again', async () => {
    const base = freshBase()
    const proxy = await startProxy(server.port)
    onTestFinished(() => proxy.dispose())
    const url = `zookeeper://127.0.0.1:${proxy.port}${base}?recipe=ephemeral&sessionMs=30000`
    const backend = await openZookeeper(url)
    onTestFinished(() => backend.close())
    await backend.open({ granted() {}, wanted() {}, hint() {}, lost() {} })
    const [first, late, next] = [claimOf('first'), claimOf('late'), claimOf('next')]
    // The folder is there afterwards, so that the next thing to come late is the lock.
    expect(await backend.attempt(first, PATIENCE)).toMatchObject({ kind: 'granted' })
    expect(await backend.release(first)).toBe('released')

    proxy.holdReplies(true)
    const attempt = backend.attempt(late, PATIENCE)
    const failing = expect(attempt).rejects.toThrow(OutcomeUnknownError)
    await until('the node is there', async () => (await direct.exists(`${base}/orders/lock`)) !== null)
    const released = backend.release(late)
    proxy.dropRequests(true)
    const givingUp = proxy.waitForBytes('request', '/orders/lock')
    proxy.holdReplies(false)
    await givingUp
    proxy.cut()
    proxy.dropRequests(false)
    await failing
    await released

    const defects: unknown[] = []
    await until('the name can be had again', async () => {
      try {
        return (await backend.attempt(next, PATIENCE)).kind === 'granted'
      } catch (error) {
        const isPassing = error instanceof BackendUnavailableError || error instanceof OutcomeUnknownError
        if (!isPassing) defects.push(error)
        return !isPassing
      }
    })
    expect(defects).toEqual([])
    expect(await backend.release(next)).toBe('released')
  })
})

describe.skipIf(isMissing)(titled('a session that was begun to look', whyMissing), () => {
  it('tells whoever gets it later of its end', async () => {
    const hosts = [{ host: '127.0.0.1', port: server.port }]
    const connections = new Connections({ hosts, sessionMs: 4_000 })
    onTestFinished(() => connections.close())
    const ended: string[] = []
    await connections.open()
    await endSession(server.port, (await connections.start(() => ended.push('first'))).client)
    expect(ended).toEqual(['first'])

    const looking = await connections.looking()
    const { client } = await connections.start(() => ended.push('second'))
    expect(client).toBe(looking)
    await endSession(server.port, client)
    expect(ended).toEqual(['first', 'second'])
  })

  it('is begun where all others were ended', async () => {
    const hosts = [{ host: '127.0.0.1', port: server.port }]
    const connections = new Connections({ hosts, sessionMs: 4_000 })
    onTestFinished(() => connections.close())
    await connections.open()
    const session = await connections.start(() => {})
    await session.end()
    const looking = await connections.looking()
    expect(await looking.exists('/')).not.toBeNull()
  })
})
