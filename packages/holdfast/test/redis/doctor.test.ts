import {
  type RedisServer,
  startRedis,
  startRedisCluster,
  startRedisMasters,
  startRedisSentinel,
} from 'holdfast-servers'
import { afterEach, describe, expect, test } from 'vitest'
import { parseRedisUrl } from '../../src/backends/redis/address.js'
import { checkFacts, type Usage } from '../../src/backends/redis/doctor/checks.js'
import type { Facts, ProbeRuntime } from '../../src/backends/redis/doctor/probe.js'
import { rulesFor } from '../../src/backends/redis/doctor/rights.js'
import { checkClock, checkLatency } from '../../src/backends/redis/doctor/timing.js'
import { checkTransport } from '../../src/backends/redis/doctor/topology.js'
import { mergeFindings } from '../../src/backends/redis/doctor.js'
import { source as lineScript } from '../../src/backends/redis/line-script.js'
import { source as setNxScript } from '../../src/backends/redis/set-nx.lua'
import { systemRuntime } from '../../src/client/system.js'
import { connect } from '../../src/connect/connect.js'
import { examine } from '../../src/connect/examine.js'
import type { Finding } from '../../src/core/doctor.js'

const started: { dispose(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of started.splice(0).reverse()) await each.dispose()
})

async function server(...args: readonly string[]): Promise<RedisServer> {
  const redis = await startRedis({ args, persist: true })
  started.push(redis)
  return redis
}

function about(findings: readonly Finding[], check: string): Finding {
  const found = findings.filter((each) => each.check === check)
  expect(found, `one finding about ${check} in ${JSON.stringify(findings)}`).toHaveLength(1)
  return found[0] as Finding
}

function notOk(findings: readonly Finding[]): readonly Finding[] {
  return findings.filter(({ level }) => level !== 'ok')
}

describe('a real server', () => {
  test.each(['ioredis', 'redis'])('that is well has nothing against it, over %s', async (driver) => {
    const redis = await server()
    const findings = await examine(`${redis.url}?driver=${driver}`)
    expect(notOk(findings)).toEqual([])
    expect(about(findings, 'server').found).toMatch(/^(Redis|Valkey) \d/)
    expect(about(findings, 'rights').level).toBe('ok')
    expect(findings.every(({ advice }) => advice === null)).toBe(true)
  })

  test('is left as it was, and so are its locks', async () => {
    const redis = await server()
    const urls = [redis.url, `${redis.url}?recipe=set-nx`]
    const clients = await Promise.all(urls.map((url) => connect(url)))
    const holds = await Promise.all(clients.map((locks) => locks.mutex('doctor').acquire()))
    const before = await redis.command('DBSIZE')
    for (const url of urls) await examine(url)
    expect(await redis.command('DBSIZE')).toBe(before)
    for (const hold of holds) {
      await hold.extend()
      hold.assertHeld()
    }
    for (const locks of clients) await locks.close()
  })

  test('may evict, be full, keep nothing, and drop idle connections', async () => {
    const redis = await server()
    await redis.command('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru')
    expect(about(await examine(redis.url), 'eviction')).toMatchObject({ level: 'note' })
    await redis.command('CONFIG', 'SET', 'maxmemory', '100mb')
    expect(about(await examine(redis.url), 'eviction')).toMatchObject({ level: 'danger' })
    await redis.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    await redis.command('CONFIG', 'SET', 'maxmemory', '1000')
    // Even a script that only looks is refused by a full server, in some versions.
    expect(about(await examine(redis.url), 'eviction')).toMatchObject({ level: 'warning' })
    await redis.command('CONFIG', 'SET', 'maxmemory', '0')
    await redis.command('CONFIG', 'SET', 'appendfsync', 'everysec')
    expect(about(await examine(redis.url), 'persistence')).toMatchObject({ level: 'note' })
    await redis.command('CONFIG', 'SET', 'appendonly', 'no')
    expect(about(await examine(redis.url), 'persistence')).toMatchObject({ level: 'warning' })
    await redis.command('CONFIG', 'SET', 'save', '3600 1')
    await redis.command('CONFIG', 'SET', 'timeout', '300')
    const findings = await examine(redis.url)
    expect(about(findings, 'persistence')).toMatchObject({ level: 'note' })
    expect(about(findings, 'idle')).toMatchObject({ level: 'note', found: expect.stringContaining('300 s') })
  })

  test('may not let itself be looked at, as where it is managed', async () => {
    const redis = await server()
    await redis.command('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all', '-config', '-info')
    const url = redis.url.replace('redis://', 'redis://app:secret@')
    const findings = await examine(url)
    expect(about(findings, 'insight')).toMatchObject({
      level: 'note',
      found: expect.stringMatching(/INFO and CONFIG/),
    })
    expect(about(findings, 'rights').level).toBe('ok')
    await redis.command('ACL', 'SETUSER', 'app', '+info')
    expect(about(await examine(url), 'persistence').level).toBe('note')
    expect(JSON.stringify(findings)).not.toContain('secret')
  })

  test('may not give the rights that are needed, and the advice is enough to get them', async () => {
    const redis = await server()
    const url = redis.url.replace('redis://', 'redis://app:secret@')
    await redis.command(
      'ACL',
      'SETUSER',
      'app',
      'on',
      '>secret',
      '~other:*',
      '&*',
      '+@all',
      '-set',
      '-publish',
      '-scan',
    )
    const findings = (await examine(url)).filter(({ check }) => check === 'rights')
    expect(findings.map(({ level }) => level)).toEqual(['danger', 'warning', 'warning', 'warning'])
    expect(findings[0]?.found).toMatch(/GET \(on these keys\).* SET.*nothing can be locked/)
    expect(findings[1]?.found).toMatch(/^PUBLISH refused/)
    expect(findings[2]?.found).toMatch(/ZADD \(on these keys\).*a queue of many waiters is slow/)
    expect(findings[3]?.found).toMatch(/^SCAN refused/)
    const rules = /^Give the user `(.*)`$/.exec(findings[0]?.advice ?? '')?.[1] ?? ''
    await redis.command('ACL', 'SETUSER', 'app', 'reset', 'on', '>secret', ...rules.split(' '))
    expect(about(await examine(url), 'rights').level).toBe('ok')
    // Clients ask for more than the locks do when they connect, and can live without.
    const locks = await connect(url)
    await locks.mutex('a').run(async () => {})
    for await (const view of locks.list()) expect(view.holders).toEqual([])
    await locks.close()
  })

  test('with replicas wants them to be waited for', async () => {
    const redis = await server()
    const replica = await server('--replicaof', `127.0.0.1 ${redis.port}`)
    await expect
      .poll(async () => (await redis.info('replication'))['connected_slaves'], { timeout: 60_000 })
      .toBe('1')
    expect(about(await examine(redis.url), 'replicas')).toMatchObject({ level: 'warning' })
    expect(about(await examine(`${redis.url}?waitReplicas=1`), 'replicas')).toMatchObject({ level: 'ok' })
    expect(about(await examine(`${redis.url}?waitReplicas=2`), 'replicas')).toMatchObject({ level: 'danger' })
    expect(about(await examine(replica.url), 'role')).toMatchObject({ level: 'danger' })
  })

  test('that is not there, or wants another password, is an error and no finding', async () => {
    await expect(examine('redis://127.0.0.1:1')).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    const redis = await server('--requirepass', 'right')
    const wrong = redis.url.replace(':right@', ':wrong@')
    for (const driver of ['ioredis', 'redis']) {
      const error = await examine(`${wrong}?driver=${driver}`).catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'UNSUPPORTED' })
      expect(String(error)).not.toContain('wrong')
    }
    await expect(examine(`${redis.url}?waitReplica=1`)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    await expect(examine('gopher://x')).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  })
})

describe('several servers', () => {
  test('a cluster is whole, or is not, and wants a client that knows it', async () => {
    const cluster = await startRedisCluster({ masters: 3, replicas: 0 })
    started.push(cluster)
    for (const driver of ['ioredis', 'redis']) {
      const findings = await examine(`${cluster.url}?driver=${driver}`)
      expect(about(findings, 'cluster')).toMatchObject({ level: 'ok' })
      expect(about(findings, 'server').found).toMatch(/\(3 servers\)$/)
      expect(about(findings, 'rights').level).toBe('ok')
    }
    const [first] = cluster.nodes
    const single = await examine(first?.url ?? '')
    expect(about(single, 'cluster')).toMatchObject({
      level: 'danger',
      found: expect.stringContaining('a node of a cluster'),
    })
    // What is refused because it lies elsewhere is not a matter of rights.
    expect(about(single, 'rights').level).toBe('ok')
    await first?.command('CONFIG', 'SET', 'maxmemory', '100mb')
    await first?.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    expect(about(await examine(cluster.url), 'eviction')).toMatchObject({
      level: 'danger',
      found: expect.stringMatching(new RegExp(`^server \\d of 3 \\(port ${first?.port}\\): allkeys-lru`)),
    })
  })

  test('a group behind Sentinel is examined at its master', async () => {
    const group = await startRedisSentinel()
    started.push(group)
    for (const driver of ['ioredis', 'redis']) {
      const findings = await examine(`${group.url}?driver=${driver}`)
      expect(about(findings, 'role')).toMatchObject({ level: 'ok' })
      expect(about(findings, 'replicas')).toMatchObject({ level: 'warning' })
    }
  })

  test('the masters of a redlock are to be different ones, and to forget nothing', async () => {
    const masters = await startRedisMasters(3)
    started.push(masters)
    const findings = await examine(masters.url)
    expect(about(findings, 'masters')).toMatchObject({ level: 'ok' })
    expect(about(findings, 'persistence').level).toBe('ok')
    const trusting = await examine(`${masters.url}?restartDelayMs=0`)
    expect(about(trusting, 'persistence')).toMatchObject({ level: 'danger' })
    const [a, b] = masters.servers
    const twice = `redis+redlock://127.0.0.1:${a?.port},127.0.0.1:${b?.port},localhost:${a?.port}`
    expect(about(await examine(twice), 'masters')).toMatchObject({ level: 'danger' })
  })
})

describe('what cannot be planted in a real server', () => {
  const usage: Usage = { recipe: 'line', waitReplicas: 0, isCluster: false, trustsRestarted: false }
  const facts = (info: Record<string, string>): Facts => ({
    info: new Map(Object.entries(info)),
    config: new Map(),
    hidden: [],
  })

  test.each([
    [{ redis_version: '6.0.16' }, 'server', 'warning'],
    [{ redis_version: '6.2.0' }, 'server', 'ok'],
    [{ redis_version: '10.0.1' }, 'server', 'ok'],
    [{ redis_version: '7.2.4', valkey_version: '8.1.1' }, 'server', 'ok'],
    [{ redis_version: '7.2.0', dragonfly_version: 'df-v1' }, 'server', 'note'],
    [{ connected_clients: '950', maxclients: '1000' }, 'clients', 'warning'],
    [{ aof_enabled: '1', aof_last_write_status: 'err' }, 'persistence', 'warning'],
  ])('%j', (info, check, level) => {
    expect(about(checkFacts(facts(info), usage), check).level).toBe(level)
  })

  test.each([
    ['redis://10.0.0.7', 'note'],
    ['redis://:secret@10.0.0.7', 'warning'],
    ['rediss://:secret@10.0.0.7', 'ok'],
    ['redis://:secret@127.0.0.1', 'ok'],
    ['redis://:secret@[::1]', 'ok'],
    ['redis+cluster://:secret@127.0.0.1,db.example.org', 'warning'],
  ])('the way of %s is %s', (url, level) => {
    const findings = checkTransport(parseRedisUrl(url))
    expect(about(findings, 'transport').level).toBe(level)
    expect(JSON.stringify(findings)).not.toContain('secret')
  })

  /** A server whose clock says what it is told, one answer after the other, in milliseconds. */
  function clockwork(times: readonly number[]): { send(): Promise<unknown> } {
    const left = [...times]
    return {
      send: async () => {
        const ms = left.length > 1 ? (left.shift() as number) : (left[0] as number)
        return [String(Math.floor(ms / 1_000)), String((ms % 1_000) * 1_000)]
      },
    }
  }

  function at(wallMs: number): ProbeRuntime {
    return { ...systemRuntime, clock: { ...systemRuntime.clock, wallMs: () => wallMs } }
  }

  test('a clock that goes back is a danger; one that is far off is a hint', async () => {
    const now = 1_700_000_000_000
    expect(about(await checkClock(clockwork([now, now + 1, now - 250]), at(now)), 'clock')).toMatchObject({
      level: 'danger',
      found: expect.stringContaining('251 ms'),
    })
    expect(about(await checkClock(clockwork([now - 60_000]), at(now)), 'clock')).toMatchObject({
      level: 'note',
      found: expect.stringContaining('60.0 s behind'),
    })
    expect(about(await checkClock(clockwork([now + 60_000]), at(now)), 'clock').found).toContain(
      '60.0 s ahead',
    )
    expect(about(await checkClock(clockwork([now + 20]), at(now)), 'clock').level).toBe('ok')
  })

  test('a slow round trip makes the difference of the clocks uncertain and not large', async () => {
    const now = 1_700_000_000_000
    let wallMs = now
    const slow: ProbeRuntime = {
      ...systemRuntime,
      clock: {
        ...systemRuntime.clock,
        monotonicMs: () => wallMs,
        wallMs: () => {
          wallMs += 5_000
          return wallMs
        },
      },
    }
    expect(
      about(await checkClock(clockwork([now + 7_000, now + 20_000, now + 30_000]), slow), 'clock').level,
    ).toBe('ok')
    const tardy = {
      send: async () => {
        wallMs += 200
        return 'PONG'
      },
    }
    expect(about(await checkLatency(tardy, slow), 'latency')).toMatchObject({
      level: 'note',
      found: expect.stringContaining('200 ms'),
    })
  })

  test('findings of several servers are told apart only where they differ', () => {
    const ok: Finding = { level: 'ok', check: 'a', found: 'fine', advice: null }
    const bad: Finding = { level: 'danger', check: 'a', found: 'bad', advice: 'do' }
    const name = (index: number): string => `s${index}`
    expect(mergeFindings([[ok]], name)).toEqual([ok])
    expect(mergeFindings([[ok], [{ ...ok, found: 'good' }]], name)).toEqual([
      { ...ok, found: 'fine (2 servers)' },
    ])
    expect(mergeFindings([[bad], [bad]], name)).toEqual([{ ...bad, found: 'bad (2 servers)' }])
    expect(mergeFindings([[ok], [bad]], name)).toEqual([{ ...bad, found: 's1: bad' }])
    expect(mergeFindings([[], [bad]], name)).toEqual([{ ...bad, found: 's1: bad' }])
  })
})

describe('the rights', () => {
  test.each([
    ['line', lineScript],
    ['set-nx', setNxScript],
    ['redlock', setNxScript],
  ] as const)('are all that the script of %s needs', (recipe, script) => {
    const usage = { recipe, waitReplicas: 1, isCluster: false, trustsRestarted: false, prefix: 'p:' }
    const rules = rulesFor(usage, '').split(/[ `]/)
    const used = [...script.matchAll(/call\('([A-Z]+)'/g)].map(([, command]) => `+${command?.toLowerCase()}`)
    expect(used.length).toBeGreaterThan(0)
    // Without INFO, the recipe `set-nx` has nothing to miss.
    for (const rule of new Set(used))
      if (rule !== '+info' || recipe === 'redlock') expect(rules).toContain(rule)
  })
})

describe('the embedded stores', () => {
  test('memory is honest about its reach', async () => {
    expect(await examine('memory:')).toMatchObject([{ level: 'note', check: 'scope' }])
  })
})
