import { squeezeMemcached, squeezeRedis, startMemcached, storeFor } from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'

describe('a server that is out of memory', () => {
  it('redis drops keys, and works again afterwards', async (context) => {
    const outcome = await storeFor('redis')
    if (outcome.kind === 'not run') return context.skip(outcome.reason)
    onTestFinished(() => outcome.store.dispose())
    const server = outcome.store.control
    const names = Array.from({ length: 200 }, (_, index) => `own:${index}`)
    for (const name of names) await server.command('SET', name, 'x')
    const relax = await squeezeRedis(server)
    await server.command('SET', 'more', 'x')
    const left = Number(await server.command('EXISTS', ...names))
    expect(left).toBeLessThan(names.length)
    await relax()
    expect(Number(await server.command('DBSIZE'))).toBeLessThanOrEqual(left + 1)
    await server.command('SET', 'again', 'x')
    expect(await server.command('GET', 'again')).toBe('x')
    expect((await server.info('memory'))['maxmemory']).toBe('0')
  })

  it('memcached drops items', async (context) => {
    const outcome = await storeFor('memcached')
    if (outcome.kind === 'not run') return context.skip(outcome.reason)
    await outcome.store.dispose()
    const server = await startMemcached({ memoryMb: 2 })
    onTestFinished(() => server.dispose())
    const sizes = [1, 50, 100, 200, 400, 800]
    for (const size of sizes) await server.command(`set own-${size} 0 0 ${size}\r\n${'x'.repeat(size)}`)
    await squeezeMemcached(server)
    for (const size of sizes) expect(await server.command(`mg own-${size}`)).toBe('EN')
    expect(await server.command('set again 0 0 5\r\nvalue')).toBe('STORED')
  })
})
