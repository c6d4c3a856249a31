import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { type RedisServer, redisCommand, startProxy, startRedis } from 'holdfast-servers'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import type { IoredisClient } from '../../src/backends/redis/client.js'
import { connect } from '../../src/connect/connect.js'
import { type RedisClient, type RedisDriverName, redisBackend } from '../../src/redis.js'
import { watchForStrays } from '../support/strays.js'
import { DRIVERS, freshName, type Party, partyAt, partyOver } from './line-support.js'
import { afterwards, rejection } from './nx-support.js'

/** With whatever may be mistaken for a part of a URL. */
const PASSWORD = 'hunter2:/@?#%41 ö'
const WRITTEN = encodeURIComponent(PASSWORD)

watchForStrays()

let server: RedisServer
beforeAll(async () => {
  server = await startRedis({ args: ['--requirepass', PASSWORD, '--busy-reply-threshold', '100'] })
})
afterAll(async () => {
  await server.dispose()
})

async function started(...args: readonly string[]): Promise<RedisServer> {
  const redis = await startRedis({ args })
  afterwards(() => redis.dispose())
  return redis
}

/** All texts that can be got out of a value by looking at it, in whichever way. */
function textsOf(value: unknown, seen = new Set<unknown>()): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null || seen.has(value)) return []
  seen.add(value)
  if (Buffer.isBuffer(value)) return [value.toString()]
  const inside = Reflect.ownKeys(value).flatMap((key) => textsOf(Reflect.get(value, key), seen))
  return [inspect(value, { depth: 10, showHidden: true }), ...inside]
}

function expectNoSecrets(error: unknown, ids: Iterable<string> = []): void {
  const text = textsOf(error).join('\n')
  for (const secret of [PASSWORD, WRITTEN, 'hunter2', ...ids]) expect(text).not.toContain(secret)
}

async function config(name: string, value: string | number): Promise<void> {
  await server.command('CONFIG', 'SET', name, value)
}

describe.each(DRIVERS)('over %s', (driver) => {
  const party = (url = server.url): Promise<Party> => partyAt(`${url}?driver=${driver}`)

  async function expectRefusal(
    { locks, notes }: Party,
    code: string,
    message: RegExp,
    name = freshName(),
  ): Promise<void> {
    const error = await rejection(locks.mutex(name).tryAcquire())
    expect(error).toMatchObject({ code, backend: 'redis', resource: name })
    expect(String(error)).toMatch(message)
    expect(notes.ids.size).toBeGreaterThan(0)
    expectNoSecrets(error, notes.ids)
  }

  /** The same lock is to be had before and after, so it was the server's state and nothing else. */
  async function expectPassing(
    enter: () => Promise<unknown>,
    leave: () => Promise<unknown>,
    message: RegExp,
  ): Promise<void> {
    const one = await party()
    const name = freshName()
    await (await one.locks.mutex(name).acquire()).release()
    await enter()
    try {
      await expectRefusal(one, 'BACKEND_UNAVAILABLE', message, name)
    } finally {
      await leave()
    }
    const hold = await one.locks.mutex(name).acquire()
    await hold.release()
  }

  test('OOM', async () => {
    await expectPassing(
      () => config('maxmemory', 1),
      () => config('maxmemory', 0),
      /no memory left/,
    )
  })

  test('NOREPLICAS', async () => {
    await expectPassing(
      () => config('min-replicas-to-write', 1),
      () => config('min-replicas-to-write', 0),
      /min-replicas-to-write/,
    )
  })

  test('MISCONF', async () => {
    const lastSave = async (): Promise<string | undefined> =>
      (await server.info('persistence')).rdb_last_bgsave_status
    const file = join(server.folder, 'dump.rdb')
    await expectPassing(
      async () => {
        // A folder is where the file should go.
        await rm(file, { force: true })
        await mkdir(file)
        await config('save', '3600 1000000')
        await server.command('BGSAVE')
        await until('the save has failed', async () => (await lastSave()) === 'err')
      },
      async () => {
        await rm(file, { recursive: true })
        await server.command('BGSAVE')
        await until('the save was good', async () => (await lastSave()) === 'ok')
        await config('save', '')
      },
      /cannot save to disk/,
    )
  })

  test('BUSY', async () => {
    let running: Promise<unknown> = Promise.resolve()
    const auth = { password: PASSWORD }
    await expectPassing(
      async () => {
        const script = ['EVAL', 'while true do end', 0]
        running = redisCommand(server.port, script, { auth, timeoutMs: 60_000 }).catch(() => undefined)
        await until('the server is busy', async () =>
          server.command('PING').then(
            () => false,
            (error) => String(error).includes('BUSY'),
          ),
        )
      },
      async () => {
        await server.command('SCRIPT', 'KILL')
        await running
      },
      /busy running a script/,
    )
  })

  test('WRONGTYPE, which is no concern of another claim in the same batch', async () => {
    const one = await party()
    const [wrong, right] = [freshName(), freshName()]
    await server.command('LPUSH', `holdfast:${wrong}`, 'x')
    const [refused, hold] = await Promise.all([
      expectRefusal(one, 'UNSUPPORTED', /in use for something else/, wrong),
      one.locks.mutex(right).tryAcquire(),
    ])
    expect(refused).toBeUndefined()
    expect(hold?.isHeld).toBe(true)
    expect(await rejection(one.locks.inspect(wrong))).toMatchObject({ code: 'UNSUPPORTED' })
    expect(await server.command('LRANGE', `holdfast:${wrong}`, 0, -1)).toEqual(['x'])
    await server.command('DEL', `holdfast:${wrong}`)
    await expectNextInBatch(one)
  })

  test('a key that holds something else hides no other lock from list()', async () => {
    const { locks } = await party()
    const prefix = freshName()
    const hold = await locks.mutex(`${prefix}:2`).acquire()
    await server.command('LPUSH', `holdfast:${prefix}:1`, 'x')
    await server.command('SET', `holdfast:${prefix}:3`, 'no queue')
    await server.command('SET', `holdfast:${prefix}:4`, 'riddle 1 5 0 0\nid 5 1 99999999999999 channel who\n')
    const listed: string[] = []
    for await (const { resource } of locks.list(prefix)) listed.push(resource)
    expect(listed).toEqual([`${prefix}:2`])
    for (const number of [1, 3, 4]) {
      expect(await rejection(locks.inspect(`${prefix}:${number}`))).toMatchObject({ backend: 'redis' })
      await server.command('DEL', `holdfast:${prefix}:${number}`)
    }
    await hold.release()
  })

  async function expectNextInBatch({ locks }: Party): Promise<void> {
    const names = Array.from({ length: 5 }, freshName)
    const holds = await Promise.all(names.map((name) => locks.mutex(name).tryAcquire()))
    for (const hold of holds) expect(await hold?.release()).toBe('released')
  }

  test('something else than a line', async () => {
    const one = await party()
    const name = freshName()
    await server.command('SET', `holdfast:${name}`, 'mine')
    await expectRefusal(one, 'BACKEND_UNAVAILABLE', /was not written by Holdfast/, name)
    expect(await server.command('GET', `holdfast:${name}`)).toBe('mine')
    await server.command('DEL', `holdfast:${name}`)
  })

  test('READONLY', async () => {
    const replica = await started('--replicaof', '127.0.0.1', String(server.port), '--masterauth', PASSWORD)
    await expectRefusal(await party(replica.url), 'BACKEND_UNAVAILABLE', /is a replica/)
  })

  test('CLUSTERDOWN', async () => {
    const node = await started('--cluster-enabled', 'yes')
    const error = await rejection(party(node.url))
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(String(error)).toMatch(/a cluster that is not whole/)
  })

  test('LOADING', async () => {
    // Each value is longer than the interval, so the server answers clients after every key that it loads.
    const slow = ['--key-load-delay', '20000', '--loading-process-events-interval-bytes', '1024']
    const redis = await started(...slow, '--rdbcompression', 'no')
    await redis.command(
      'EVAL',
      'for i = 1, 10000 do redis.call("SET", "k" .. i, string.rep("x", 1100)) end',
      0,
    )
    await redis.command('SAVE')
    const one = await partyOver(redisBackend({ client: await impatientClient(redis, driver) }))
    const restarted = redis.restart()
    const name = freshName()
    const heard: string[] = []
    const saysSo = until('it says that it is loading', async () => {
      const outcome = await one.locks
        .mutex(name)
        .tryAcquire()
        .then((hold) => hold?.release(), String)
      heard.push(outcome ?? 'refused')
      return heard.some((text) => text.includes('is still loading its data'))
    })
    // The test ends the loading, so that the server is still loading when a slow machine asks it.
    await saysSo
    await redis.command('CONFIG', 'SET', 'key-load-delay', '0')
    await restarted
    expect(heard).not.toContain('refused')
    const hold = await one.locks.mutex(name).acquire()
    expect(hold.isHeld).toBe(true)
  })

  test('NOAUTH and WRONGPASS, at the opening already', async () => {
    const place = `127.0.0.1:${server.port}?driver=${driver}`
    const none = await rejection(connect(`redis://${place}`))
    expect(none).toMatchObject({ code: 'UNSUPPORTED', backend: 'redis' })
    expect(String(none)).toMatch(/wants a password/)
    for (const login of [`:${WRITTEN}x@`, `hunter2user:${WRITTEN}@`]) {
      const wrong = await rejection(connect(`redis://${login}${place}`))
      expect(wrong).toMatchObject({ code: 'UNSUPPORTED', backend: 'redis' })
      expect(String(wrong)).toMatch(/does not accept the user name or the password/)
      expectNoSecrets(wrong)
    }
  })

  test.each([
    ['no commands', ['+ping', '~*', '&*']],
    ['no scripts', ['+@all', '-@scripting', '~*', '&*']],
    ['no writes inside scripts', ['+@all', '-set', '~*', '&*']],
    ['no keys', ['+@all', '~other:*', '&*']],
    ['no channels', ['+@all', '~*', 'resetchannels']],
  ])('NOPERM for a user with %s', async (_what, rules) => {
    const user = `hunter2-${freshName()}`
    await server.command('ACL', 'SETUSER', user, 'on', `>${PASSWORD}`, ...rules)
    afterwards(() => server.command('ACL', 'DELUSER', user))
    const url = `redis://${user}:${WRITTEN}@127.0.0.1:${server.port}?driver=${driver}`
    const error = await rejection(
      (async () => {
        const locks = await connect(url)
        afterwards(() => locks.close())
        await locks.mutex(freshName()).tryAcquire()
      })(),
    )
    expect(error).toMatchObject({ code: 'UNSUPPORTED', backend: 'redis' })
    expect(String(error)).toMatch(/does not let this user do that/)
    const text = textsOf(error).join('\n')
    expect(text).not.toContain(PASSWORD)
  })

  test('a connection that is refused', async () => {
    const gone = await started()
    await gone.stop()
    const url = `redis://:${WRITTEN}@127.0.0.1:${gone.port}?driver=${driver}`
    const error = await rejection(connect(url))
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', backend: 'redis' })
    expect(String(error)).toContain(`127.0.0.1:${gone.port}`)
    expectNoSecrets(error)
  })

  test('a connection that ends before the answer comes', async () => {
    const proxy = await startProxy(server.port)
    afterwards(() => proxy.dispose())
    const one = await party(`redis://:${WRITTEN}@127.0.0.1:${proxy.port}`)
    const name = freshName()
    proxy.dropReplies(true)
    const sent = proxy.waitForBytes('request', name)
    const refused = expectRefusal(one, 'OUTCOME_UNKNOWN', /ended before an answer came/, name)
    await sent
    proxy.cut()
    proxy.dropReplies(false)
    await refused
  })
})

/** Sends to a server that loads its data, too. */
async function impatientClient({ port }: RedisServer, driver: RedisDriverName): Promise<RedisClient> {
  if (driver === 'ioredis') {
    const client = new Redis({ host: '127.0.0.1', port, enableReadyCheck: false, maxRetriesPerRequest: 0 })
    client.on('error', () => {})
    afterwards(() => client.disconnect())
    return client
  }
  const client = createClient({ url: `redis://127.0.0.1:${port}`, disableOfflineQueue: true })
  client.on('error', () => {})
  await client.connect()
  afterwards(() => client.destroy())
  return client as RedisClient
}

test('a server that never knows the script is named as what it is', async () => {
  const client = new Redis({ host: '127.0.0.1', port: server.port, password: PASSWORD })
  afterwards(() => client.disconnect())
  let isForgetful = false
  const forgetful: IoredisClient = Object.assign(client as unknown as IoredisClient, {
    call: (command: string, args: string[]) =>
      isForgetful
        ? client.evalsha('0'.repeat(40), args.length - 2, ...args.slice(2))
        : Redis.prototype.call.apply(client, [command, ...args]),
  })
  const { locks, notes } = await partyOver(redisBackend({ client: forgetful }))
  isForgetful = true
  const error = await rejection(locks.mutex(freshName()).tryAcquire())
  expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  expect(String(error)).toMatch(/forgotten the script twice/)
  expectNoSecrets(error, notes.ids)
})

test('a command that the server does not have shows no claim', async () => {
  const redis = await started('--rename-command', 'EVALSHA', '')
  for (const driver of DRIVERS) {
    const error = await rejection(partyAt(`${redis.url}?driver=${driver}`))
    expect(String(error)).toMatch(/unknown command/)
    expect(textsOf(error).join('\n')).not.toContain('holdfast:')
  }
})
