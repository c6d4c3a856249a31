import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import {
  missingPrograms,
  missingReason,
  type RedisServer,
  redisCommand,
  requiredStores,
  startRedis,
  startRedisCluster,
  startRedisMasters,
  startRedisSentinel,
  startServer,
  storeFor,
  stores,
} from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { titled } from '../support/titled.js'
import { until } from '../support/wait.js'

const [missing] = missingPrograms(['redis-server'])
const required = requiredStores(process.env.HOLDFAST_REQUIRE_STORES, [...stores.keys()])
if (missing !== undefined && required.has('redis')) throw new Error(`${missing} is required and not there.`)

/** Disposes of what a test started, whatever comes of the test. */
async function started<T extends { dispose(): Promise<void> }>(starting: Promise<T>): Promise<T> {
  const thing = await starting
  onTestFinished(() => thing.dispose())
  return thing
}

/** A process that has ended and that nobody has collected does not count. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch {
    return false
  }
  if (!existsSync(`/proc/${pid}/stat`)) return process.platform !== 'linux'
  return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
}

/**
 * Waits until so many replicas have all that was written by now. `WAIT` would not do: it speaks of what was written over its
 * own connection, and every command has a connection of its own here.
 */
async function replicated(master: RedisServer, replicas: number): Promise<void> {
  const written = Number((await master.info('replication')).master_repl_offset)
  await until('the replicas have it', async () => {
    const fields = Object.entries(await master.info('replication'))
    const offsets = fields.flatMap(([name, value]) =>
      /^slave\d+$/.test(name) ? [Number(/\boffset=(\d+)/.exec(value ?? '')?.[1])] : [],
    )
    return offsets.filter((offset) => offset >= written).length >= replicas
  })
}

function pidOf(server: RedisServer): number {
  if (server.pid === undefined) throw new Error('The server does not run.')
  return server.pid
}

describe.skipIf(missing !== undefined)(
  titled('startRedis', missing === undefined ? null : missingReason([missing])),
  () => {
    it('gives a server that answers on the loopback address', async () => {
      const server = await started(startRedis({ args: ['--maxmemory', '20mb'] }))
      expect(server.url).toBe(`redis://127.0.0.1:${server.port}`)
      expect(server.port).toBeLessThan(32_768)
      expect(await server.command('SET', 'ключ', 'värde\r\n')).toBe('OK')
      expect(await server.command('GET', 'ключ')).toBe('värde\r\n')
      expect(await server.command('INCRBY', 'count', 7)).toBe(7)
      expect(await server.command('MGET', 'count', 'none')).toEqual(['7', null])
      expect(await server.command('CONFIG', 'GET', 'maxmemory')).toEqual(['maxmemory', '20971520'])
      await expect(server.command('INCR', 'ключ')).rejects.toThrow('not an integer')
    })

    it('leaves no process and no folder behind', async () => {
      const server = await startRedis()
      const [pid, folder] = [pidOf(server), server.folder]
      await Promise.all([server.dispose(), server.dispose()])
      expect(isAlive(pid)).toBe(false)
      expect(existsSync(folder)).toBe(false)
      await expect(server.restart()).rejects.toThrow('disposed')
    })

    it('keeps the data over a crash when it persists, and the port', async () => {
      const server = await started(startRedis({ persist: true }))
      const before = { port: server.port, pid: server.pid }
      await server.command('SET', 'kept', 'yes')
      await server.kill()
      expect(server.running).toBe(false)
      await expect(server.command('PING')).rejects.toThrow('ECONNREFUSED')
      await server.restart()
      expect(server.port).toBe(before.port)
      expect(server.pid).not.toBe(before.pid)
      expect(await server.command('GET', 'kept')).toBe('yes')
    })

    it('keeps nothing otherwise', async () => {
      const server = await started(startRedis())
      await server.command('SET', 'kept', 'yes')
      await server.restart()
      expect(await server.command('GET', 'kept')).toBe(null)
    })

    it('answers nothing while it is paused, and can be ended then', async () => {
      const server = await started(startRedis())
      await server.pause()
      await expect(redisCommand(server.port, ['PING'], { timeoutMs: 200 })).rejects.toThrow(
        'did not answer PING',
      )
      await server.resume()
      expect(await server.command('PING')).toBe('PONG')
      await server.pause()
      const pid = pidOf(server)
      await server.stop()
      expect(isAlive(pid)).toBe(false)
      await server.restart()
      expect(await server.command('PING')).toBe('PONG')
    })

    it('knows the password that it was given', async () => {
      const server = await started(startRedis({ args: ['--requirepass', 'a b'] }))
      expect(server.url).toBe(`redis://:a%20b@127.0.0.1:${server.port}`)
      expect(await server.command('PING')).toBe('PONG')
      await expect(redisCommand(server.port, ['PING'])).rejects.toMatchObject({ code: 'NOAUTH' })
      const args = ['--user', 'default', 'off', '--user', 'tom', 'on', '>secret', '~*', '&*', '+@all']
      const named = await started(startRedis({ args, auth: { username: 'tom', password: 'secret' } }))
      expect(await named.command('ACL', 'WHOAMI')).toBe('tom')
    })

    it.skipIf(missingPrograms(['openssl']).length > 0)(
      titled(
        'speaks TLS with its own certificate',
        missingPrograms(['openssl']).length > 0 ? missingReason(['openssl']) : null,
      ),
      async () => {
        const server = await started(startRedis({ tls: true }))
        expect(server.url).toBe(`rediss://127.0.0.1:${server.port}`)
        const ca = readFileSync(server.ca ?? '', 'utf8')
        expect(await redisCommand(server.port, ['PING'], { ca })).toBe('PONG')
        await expect(redisCommand(server.port, ['PING'])).rejects.toThrow(/closed|ECONNRESET/)
      },
    )

    it('says what the server wrote when it does not start', async () => {
      await expect(startRedis({ args: ['--no-such-setting', '1'] })).rejects.toThrow(/no-such-setting/)
    })

    it('takes another port when somebody is faster', async () => {
      const tried: number[] = []
      const blockers: { dispose(): Promise<void> }[] = []
      const server = await started(
        startServer({
          name: 'contended',
          program: 'redis-server',
          prepare: async ({ port }) => {
            tried.push(port)
            if (tried.length > 1) return
            const other = createServer((socket) => socket.destroy())
            await new Promise<void>((resolve) => other.listen(port, '127.0.0.1', resolve))
            blockers.push({ dispose: () => new Promise((resolve) => other.close(() => resolve())) })
          },
          args: ({ port }) => ['--port', String(port), '--bind', '127.0.0.1', '--save', ''],
          ready: async ({ port }) => (await redisCommand(port, ['PING'])) === 'PONG',
        }),
      )
      expect(tried.length).toBe(2)
      expect(server.port).toBe(tried[1])
      for (const blocker of blockers) await blocker.dispose()
    })
  },
)

describe.skipIf(missing !== undefined)(
  titled(
    'when the process that started servers is gone',
    missing === undefined ? null : missingReason([missing]),
  ),
  () => {
    const program = `
    import { startRedis } from 'holdfast-servers'
    const servers = [await startRedis(), await startRedis()]
    await servers[1].pause()
    console.log(JSON.stringify(servers.map(({ pid, folder }) => ({ pid, folder }))))
    if (process.argv.includes('--wait')) setInterval(() => undefined, 1_000)
  `
    it.each([
      ['it was killed', ['--wait'], 'SIGKILL'],
      ['it got SIGTERM', ['--wait'], 'SIGTERM'],
      ['it came to its end', [], undefined],
    ] as const)('ends them, because %s', async (_, args, signal) => {
      const child = spawn(process.execPath, ['--input-type=module', '-e', program, '--', ...args], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const gone = new Promise((resolve) => child.once('exit', resolve))
      let line = ''
      for await (line of createInterface({ input: child.stdout })) break
      const servers: { pid: number; folder: string }[] = JSON.parse(line)
      expect(servers.length).toBe(2)
      if (signal !== undefined) {
        expect(servers.every(({ pid }) => isAlive(pid))).toBe(true)
        child.kill(signal)
      }
      await gone
      await until('the servers ended', () => !servers.some(({ pid }) => isAlive(pid)))
      await until('the folders are removed', () => !servers.some(({ folder }) => existsSync(folder)))
    })
  },
)

describe.skipIf(missing !== undefined)(
  titled('groups of servers', missing === undefined ? null : missingReason([missing])),
  () => {
    it('starts masters that know nothing of each other', async () => {
      const group = await started(startRedisMasters())
      expect(group.servers.length).toBe(5)
      expect(group.url).toBe(
        `redis+redlock://${group.urls.map((url) => url.slice('redis://'.length)).join(',')}`,
      )
      for (const [index, server] of group.servers.entries()) await server.command('SET', 'index', index)
      const found = await Promise.all(group.servers.map((server) => server.command('GET', 'index')))
      expect(found).toEqual(['0', '1', '2', '3', '4'])
    })

    it('starts sentinels that choose another master', async () => {
      // A busy machine stalls a server for a second now and then, and another failover is not what is looked at here.
      const group = await started(startRedisSentinel({ persist: true, downAfterMs: 5_000 }))
      expect(group.url).toMatch(
        /^redis\+sentinel:\/\/127\.0\.0\.1:\d+,127\.0\.0\.1:\d+,127\.0\.0\.1:\d+\/holdfast$/,
      )
      const first = await group.master()
      expect(first).toBe(group.servers[0])
      await first.command('SET', 'kept', 'yes')
      await replicated(first, 2)
      await first.kill()
      const second = await group.failedOver(first)
      expect(second).not.toBe(first)
      expect(await second.command('GET', 'kept')).toBe('yes')
      await first.restart()
      await group.settled()
      expect((await first.info('replication')).role).toBe('slave')
      expect(await group.master()).toBe(second)
      // The role of a former replica lasts too.
      await second.restart()
      await group.settled()
      const pids = [...group.servers, ...group.sentinels].map(pidOf)
      await group.dispose()
      expect(pids.filter(isAlive)).toEqual([])
    })

    it('starts a cluster that serves every key and survives a master', async () => {
      const cluster = await started(startRedisCluster())
      expect(cluster.url.split(',').length).toBe(3)
      for (const node of cluster.nodes) {
        expect(await node.command('CLUSTER', 'INFO')).toContain('cluster_state:ok')
        expect(node.port + 10_000).toBeLessThan(32_768)
      }
      const owners = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((key) => cluster.masterFor(key)))
      expect(new Set(owners).size).toBe(3)
      const owner = await cluster.masterFor('{tag}1')
      expect(await cluster.masterFor('{tag}2')).toBe(owner)
      await owner.command('SET', '{tag}1', 'kept')
      await replicated(owner, 1)
      await owner.kill()
      const next = await cluster.failedOver('{tag}1', owner)
      expect(await next.command('GET', '{tag}1')).toBe('kept')
      await owner.restart()
      await cluster.settled()
      expect((await owner.info('replication')).role).toBe('slave')
    })
  },
)

describe('the stores of Redis', () => {
  it.skipIf(missing !== undefined)(
    titled('have a control with a type', missing === undefined ? null : missingReason([missing])),
    async () => {
      const outcome = await storeFor('redis')
      if (outcome.kind !== 'ready') throw new Error(outcome.reason)
      const { control, url } = outcome.store
      expect(url).toBe(control.url)
      expect(await control.command('PING')).toBe('PONG')
      await outcome.store.dispose()
      await outcome.store.dispose()
      expect(control.running).toBe(false)
    },
  )

  it.each(['redis', 'redis-masters', 'redis-sentinel', 'redis-cluster'])(
    'are not run without the program: %s',
    async (name) => {
      const path = process.env.PATH
      process.env.PATH = ''
      onTestFinished(() => void (process.env.PATH = path))
      const outcome = await storeFor(name, stores, {})
      expect(outcome).toMatchObject({
        kind: 'not run',
        name,
        reason: expect.stringContaining('apt-get install'),
      })
      await expect(storeFor(name, stores, { HOLDFAST_REQUIRE_STORES: name })).rejects.toThrow('is required')
    },
  )
})
