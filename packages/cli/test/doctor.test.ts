import type { Finding } from 'holdfast'
import { type RedisServer, startRedis, startRedisCluster, storeFor } from 'holdfast-servers'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../../test/support/wait.js'
import { findingLines } from '../src/format/findings.js'
import { Bench, type Ended, requireBuild } from './command.js'

const started: { dispose(): Promise<void> }[] = []
let bench: Bench
beforeAll(requireBuild)
beforeEach(() => {
  bench = new Bench()
})
afterEach(async () => {
  await bench.clear()
  for (const each of started.splice(0).reverse()) await each.dispose()
})

async function server(...args: readonly string[]): Promise<RedisServer> {
  const redis = await startRedis({ args, persist: true })
  started.push(redis)
  return redis
}

async function examined(url: string, exitCode: number): Promise<readonly Finding[]> {
  const ended = await bench.holdfast(['doctor', '--url', url, '--json'])
  expect(ended).toMatchObject({ exitCode, stderr: '' })
  return JSON.parse(ended.stdout) as Finding[]
}

function expectOneLine({ stdout, stderr }: Ended): void {
  expect(stdout).toBe('')
  expect(stderr).toMatch(/^holdfast: [^\n]*\n$/)
}

describe('doctor', () => {
  test('is 0 where nothing is worse than a note', async () => {
    const redis = await server()
    const { exitCode, stdout, stderr } = await bench.holdfast(['doctor'], { HOLDFAST_URL: redis.url })
    expect(stderr).toBe('')
    expect(stdout).toMatch(/^LEVEL +CHECK +FOUND\nok +transport +TCP within this machine\n/)
    expect(stdout).toMatch(/\n\nNothing is wrong that can be seen from here\.\n$/)
    expect(exitCode).toBe(0)
    await redis.command('CONFIG', 'SET', 'timeout', '300')
    expect(await examined(redis.url, 0)).toContainEqual(
      expect.objectContaining({ level: 'note', check: 'idle' }),
    )
  })

  test('tells of a server that evicts, with what to do about it', async () => {
    const redis = await server('--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru')
    const { exitCode, stdout } = await bench.holdfast(['doctor', '--url', redis.url])
    expect(stdout).toMatch(
      /\nDANGER +eviction +allkeys-lru: a lock can vanish .*\n +> Set `maxmemory-policy noeviction`/,
    )
    expect(stdout).toMatch(/\n1 danger, 0 warnings, 0 notes\.\n$/)
    expect(stdout).not.toContain('\u{1b}')
    expect(exitCode).toBe(1)
  })

  test('tells a replica from a master that nobody waits for', async () => {
    const redis = await server()
    const replica = await server('--replicaof', `127.0.0.1 ${redis.port}`)
    await until(
      'the replica is attached',
      async () => (await redis.info('replication'))['connected_slaves'] === '1',
    )
    const danger = expect.objectContaining({ level: 'danger', check: 'role' })
    expect(await examined(replica.url, 1)).toContainEqual(danger)
    const warning = expect.objectContaining({ level: 'warning', check: 'replicas' })
    expect(await examined(redis.url, 1)).toContainEqual(warning)
    expect(await examined(`${redis.url}?waitReplicas=1`, 0)).not.toContainEqual(warning)
  })

  test('tells which rights a user lacks', async () => {
    const redis = await server()
    await redis.command('ACL', 'SETUSER', 'app', 'on', '>s3cret', '~holdfast:*', '&*', '+@all', '-set')
    const findings = await examined(redis.url.replace('redis://', 'redis://app:s3cret@'), 1)
    const rights = findings.filter(({ check }) => check === 'rights')
    expect(rights).toMatchObject([{ level: 'danger', found: expect.stringMatching(/^SET refused/) }])
    expect(rights[0]?.advice).toContain('+set')
  })

  test('tells a node of a cluster from a server', async () => {
    const cluster = await startRedisCluster({ masters: 3, replicas: 0, persist: true })
    started.push(cluster)
    const danger = expect.objectContaining({ level: 'danger', check: 'cluster' })
    expect(await examined(cluster.nodes[0]?.url ?? '', 1)).toContainEqual(danger)
    expect(await examined(cluster.url, 0)).not.toContainEqual(danger)
  })

  test('a login that is refused is 64, a server that is not there 69, and neither repeats a password', async () => {
    const redis = await server('--requirepass', 'right-s3cret')
    const wrong = redis.url.replace('right-s3cret', 'wrong-s3cret')
    const missing = redis.url.replace(':right-s3cret@', '')
    for (const url of [wrong, missing, `${redis.url}?waitReplica=1`]) {
      const refused = await bench.holdfast(['doctor', '--url', url])
      expectOneLine(refused)
      expect(refused.stderr).not.toContain('s3cret')
      expect(refused.exitCode).toBe(64)
    }
    const gone = await bench.holdfast(['doctor', '--url', 'redis://:s3cret@127.0.0.1:1'], {
      HOLDFAST_DEBUG: '1',
    })
    expect(gone.stderr).not.toContain('s3cret')
    expect(gone.exitCode).toBe(69)
    const accepted = await bench.holdfast(['doctor', '--url', redis.url])
    expect(accepted.stdout + accepted.stderr).not.toContain('s3cret')
    expect(accepted.exitCode).toBe(0)
  })

  test.for(['postgres', 'mariadb', 'mysql'] as const)(
    'looks at %s, before the tables and after',
    async (name, { skip }) => {
      const outcome = await storeFor(name)
      if (outcome.kind === 'not run') return skip(outcome.reason)
      started.push(outcome.store)
      const { url } = outcome.store
      const missing = expect.objectContaining({ level: 'danger', check: 'tables' })
      expect(await examined(url, 1)).toContainEqual(missing)
      expect((await bench.holdfast(['migrate', '--url', url])).exitCode).toBe(0)
      // Servers for tests do not force what they write to the disk, which is all that is wrong with them.
      const findings = await examined(url, 1)
      expect(findings.filter(({ level }) => level !== 'ok')).toMatchObject([
        { level: 'warning', check: 'durability' },
      ])
      const recipe = name === 'postgres' ? 'advisory' : 'get-lock'
      const { exitCode, stdout, stderr } = await bench.holdfast([
        'doctor',
        '--url',
        `${url}?recipe=${recipe}`,
      ])
      expect(stderr).toBe('')
      expect(stdout).toMatch(/\nok +tables +none are needed\n/)
      expect(stdout).toMatch(/\n\nNothing is wrong that can be seen from here\.\n$/)
      expect(exitCode).toBe(0)
    },
  )

  test('looks at the embedded stores, too, and makes no file', async () => {
    const missing = await examined(bench.url, 0)
    expect(missing).toContainEqual(expect.objectContaining({ level: 'note', check: 'file' }))
    expect(await examined(bench.url, 0)).toEqual(missing)
    await bench.hold('a')
    const findings = await examined(bench.url, 0)
    expect(findings.map(({ level, check }) => `${level} ${check}`)).toEqual(['ok clock', 'ok file'])
    expect((await bench.inspect('a')).holders).toHaveLength(1)
    expect(await examined('memory:', 0)).toMatchObject([{ level: 'note', check: 'scope' }])
  })
})

describe('findings', () => {
  test('are shown without escape sequences and credentials, and are not cut', () => {
    const long = 'x'.repeat(300)
    const lines = findingLines([
      { level: 'ok', check: 'a', found: 'redis://anna:s3cret@host \u{1b}[2J', advice: null },
      { level: 'warning', check: 'longer', found: long, advice: `do\n${long}` },
    ])
    expect(lines).toEqual([
      'LEVEL    CHECK   FOUND',
      'ok       a       redis://***@host \\u{1b}[2J',
      `WARNING  longer  ${long}`,
      `                 > do\\u{a}${long}`,
      '',
      '0 dangers, 1 warning, 0 notes.',
    ])
  })
})
