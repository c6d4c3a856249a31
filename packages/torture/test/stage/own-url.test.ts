import { connect } from 'holdfast'
import { redisCommand, storeFor } from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { stageForUrl } from '../../src/stage/own-url.js'
import type { Stage } from '../../src/stage/stage.js'

const POLL = { timeout: 30_000, interval: 50 }
const NETWORK = ['cut', 'drop-requests', 'drop-replies', 'delay', 'late', 'half-open', 'duplicate']

async function started(url: string): Promise<Stage> {
  const stage = await stageForUrl(url, 'run-1:').start()
  onTestFinished(() => stage.dispose())
  return stage
}

/** The URL of a store that a test starts, or null where it cannot be had. */
async function urlOf(name: string): Promise<string | null> {
  const outcome = await storeFor(name)
  if (outcome.kind === 'not run') return null
  onTestFinished(() => outcome.store.dispose())
  return outcome.store.url
}

describe('a store of its own', () => {
  it.each([
    ['redis://u:p@h:1/2?recipe=set-nx', 'redis', 'set-nx'],
    ['rediss://h', 'redis', 'default'],
    ['redis+redlock://a,b,c', 'redis', 'redlock'],
    ['rediss+sentinel://a,b/m', 'redis-sentinel', 'default'],
    ['redis+cluster://a', 'redis-cluster', 'default'],
    ['postgresql://h/d?recipe=advisory&max=2', 'postgres', 'advisory'],
    ['mariadb://h/d', 'mariadb', 'default'],
    ['etcd://a,b,c/p', 'etcd-cluster', 'default'],
    ['zookeepers://a,b,c/p', 'zookeeper-ensemble', 'default'],
    ['consul://a', 'consul', 'default'],
    ['sqlite:/a,b', 'sqlite', 'default'],
  ])('%s is %s %s', (url, store, recipe) => {
    expect(stageForUrl(url, 'p')).toMatchObject({ store, recipe })
  })

  it('is reached through relays, and only the network fails', async (context) => {
    const url = await urlOf('redis')
    if (url === null) return context.skip('not run: there is no Redis')
    const stage = await started(`${url}/3?recipe=set-nx`)
    expect(stage.url).not.toContain(new URL(url).host)
    expect(stage.url).toMatch(/^redis:\/\/127\.0\.0\.1:\d+\/3\?recipe=set-nx$/)
    expect(stage.recipe).toBe('set-nx')
    expect(stage.faults.map(({ name }) => name)).toEqual(NETWORK)
    const locks = await connect(stage.url)
    const hold = await locks.mutex('run-1:a').acquire({ ttlMs: stage.ttlMs })
    expect(await stage.leftovers()).toContainEqual({ what: 'claim', name: 'run-1:a' })
    await hold.release()
    await locks.close()
    await expect.poll(() => stage.leftovers(), POLL).toEqual([])
    // What is somebody else's is none of our business, and stays.
    const port = Number(new URL(url).port)
    await redisCommand(port, ['SET', 'theirs', 'x'])
    expect(await stage.leftovers()).toEqual([])
    await stage.dispose()
    expect(await redisCommand(port, ['GET', 'theirs'])).toBe('x')
  })

  it('gets no tables that it did not have', async (context) => {
    const url = await urlOf('postgres')
    if (url === null) return context.skip('not run: there is no PostgreSQL')
    const stage = await started(url)
    expect(stage.url).toContain('postgres://postgres@127.0.0.1:')
    const locks = await connect(stage.url)
    onTestFinished(() => locks.close())
    await expect(locks.mutex('run-1:a').acquire()).rejects.toThrow(/migrate/)
  })

  it('has relays for every host, and none where clients find the servers by themselves', async (context) => {
    const masters = await urlOf('redis-masters')
    if (masters === null) return context.skip('not run: there is no Redis')
    const stage = await started(`${masters}?restartDelayMs=0`)
    expect(stage.url.match(/127\.0\.0\.1:\d+/g)).toHaveLength(5)
    expect(stage.store).toBe('redis')
    const file = await urlOf('sqlite')
    const alone = await started(String(file))
    expect(alone.url).toBe(file)
    expect(alone.faults).toEqual([])
  })
})
