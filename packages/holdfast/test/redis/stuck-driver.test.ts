import { type RedisServer, startRedis } from 'holdfast-servers'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import type {
  IoredisClient,
  IoredisCluster,
  NodeRedisClient,
  NodeRedisCluster,
} from '../../src/backends/redis/client.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import { type RedisDriverName, redisBackend } from '../../src/redis.js'
import { watchForStrays } from '../support/strays.js'
import { DRIVERS, freshName } from './line-support.js'
import { afterwards, rejection } from './nx-support.js'

/** Short, because every call here runs into them; the lease is so long that it explains nothing. */
const SETTINGS = { requestMs: 1_000, outageMs: 3_000, ttlMs: 120_000 }

watchForStrays()

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(async () => {
  await server.dispose()
})

function never(): Promise<never> {
  return new Promise(() => {})
}

/** What of a driver has stopped to settle its promises. The server does not even get what is asked meanwhile. */
class Stuck {
  commands = false
  listening = false
}

function stuckIoredis(client: Redis, stuck: Stuck): IoredisClient {
  return {
    isCluster: false,
    options: {},
    call: (command, args) => (stuck.commands ? never() : client.call(command, args)),
    pipeline: (commands) => client.pipeline(commands),
    duplicate: (override) => {
      const listener = client.duplicate(override as object) as unknown as IoredisClient
      if (!stuck.listening) return listener
      // It connects with its first command, and this one is never answered.
      const subscribe = async (channel: string): Promise<never> => {
        await listener.unsubscribe(channel)
        return await never()
      }
      return Object.assign(listener, { subscribe })
    },
    subscribe: (channel) => client.subscribe(channel),
    unsubscribe: (channel) => client.unsubscribe(channel),
    on: (event, listener) => client.on(event, listener),
    off: (event, listener) => client.off(event, listener),
    disconnect: () => client.disconnect(),
  }
}

function stuckNodeRedis(client: NodeRedisClient, stuck: Stuck): NodeRedisClient {
  return {
    isOpen: true,
    sendCommand: (args) => (stuck.commands ? never() : client.sendCommand(args)),
    duplicate: () => {
      const listener = client.duplicate()
      return stuck.listening ? Object.assign(listener, { subscribe: never }) : listener
    },
    connect: () => client.connect(),
    subscribe: (channel, listener) => client.subscribe(channel, listener),
    on: (event, listener) => client.on(event, listener),
    destroy: () => client.destroy(),
  }
}

async function stuckClient(driver: RedisDriverName, stuck: Stuck): Promise<IoredisClient | NodeRedisClient> {
  if (driver === 'ioredis') {
    const client = new Redis({ host: '127.0.0.1', port: server.port })
    afterwards(() => client.disconnect())
    return stuckIoredis(client, stuck)
  }
  const client = createClient({ url: server.url })
  await client.connect()
  afterwards(() => client.destroy())
  return stuckNodeRedis(client as unknown as NodeRedisClient, stuck)
}

async function isListed(locks: Locks, name: string): Promise<boolean> {
  for await (const { resource } of locks.list()) if (resource === name) return true
  return false
}

async function connectionsLeft(): Promise<number> {
  return Number((await server.info('clients')).connected_clients)
}

describe.each(DRIVERS)('%s whose promises never settle', (driver) => {
  test('holds up no caller, and goes on when it works again', async () => {
    const stuck = new Stuck()
    const locks = await createLocks(redisBackend({ client: await stuckClient(driver, stuck) }), SETTINGS)
    const [name, other] = [freshName(), freshName()]
    const hold = await locks.mutex(name).acquire()
    stuck.commands = true
    expect(await rejection(locks.mutex(other).tryAcquire())).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(await rejection(locks.mutex(other).acquire())).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(await rejection(locks.mutex(other).acquire({ waitMs: 1_400 }))).toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
    })
    expect(await rejection(hold.extend())).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(await rejection(locks.inspect(name))).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(await rejection(isListed(locks, name))).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(await hold.release()).toBe('unconfirmed')
    stuck.commands = false
    await until('the release has been repeated', async () => !(await isListed(locks, name)))
    await (await locks.mutex(name).acquire()).release()
    await locks.close()
  })

  test('does not keep a client from closing', async () => {
    const stuck = new Stuck()
    const before = await connectionsLeft()
    const locks = await createLocks(redisBackend({ client: await stuckClient(driver, stuck) }), SETTINGS)
    const hold = await locks.mutex(freshName()).acquire()
    stuck.commands = true
    await locks.close()
    expect(hold.isHeld).toBe(false)
    // What is left is the client that was given.
    await until('the listening connection is closed', async () => (await connectionsLeft()) <= before + 1)
  })

  test.each([
    ['commands', { commands: true }],
    ['subscription', { listening: true }],
  ])('does not keep the opening waiting for its %s, which leaves no connection', async (_what, what) => {
    const stuck = Object.assign(new Stuck(), what)
    const before = await connectionsLeft()
    const client = await stuckClient(driver, stuck)
    const opening = createLocks(redisBackend({ client }), SETTINGS)
    expect(await rejection(opening)).toMatchObject({ code: 'OUTCOME_UNKNOWN', backend: 'redis' })
    await until('the listening connection is closed', async () => (await connectionsLeft()) <= before + 1)
  })
})

describe('a cluster client that never confirms the end of its subscription', () => {
  /** One server stands for the whole cluster: nothing here depends on which node has what. */
  async function closeOver(client: IoredisCluster | NodeRedisCluster): Promise<void> {
    const locks = await createLocks(redisBackend({ client }), SETTINGS)
    const hold = await locks.mutex(freshName()).acquire()
    await locks.close()
    expect(hold.isHeld).toBe(false)
  }

  test('does not keep ioredis from closing', async () => {
    const client = new Redis({ host: '127.0.0.1', port: server.port })
    const listener = client.duplicate()
    afterwards(() => {
      client.disconnect()
      listener.disconnect()
    })
    await closeOver({
      isCluster: true,
      options: {},
      slots: [],
      call: (command, args) => client.call(command, args),
      nodes: () => [],
      subscribe: (channel: string) => listener.subscribe(channel),
      unsubscribe: never,
      on: (event, handle) => listener.on(event, handle),
      off: (event, handle) => listener.off(event, handle),
      disconnect: () => {},
    })
  })

  test('does not keep node-redis from closing', async () => {
    const client = createClient({ url: server.url })
    const listener = client.duplicate()
    await client.connect()
    await listener.connect()
    afterwards(() => {
      client.destroy()
      listener.destroy()
    })
    await closeOver({
      isOpen: true,
      masters: [],
      slots: [],
      sendCommand: (_key, _isReadonly, args) => client.sendCommand(args),
      nodeClient: never,
      subscribe: (channel, handle) => listener.subscribe(channel, handle),
      unsubscribe: never,
      destroy: () => {},
    })
  })
})
