import { randomBytes } from 'node:crypto'
import { startProxy, storeFor } from 'holdfast-servers'
import { createService, type Service } from 'holdfast-service'
import { afterAll, describe, expect, it } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { connect } from '../../src/index.js'

const outcome = await storeFor('redis')
const services: Service[] = []
const ends: (() => unknown)[] = []

/** Longer than the service takes to notice that a connection is gone. */
const NOTICED_MS = 1_000

async function start(url: string): Promise<number> {
  const service = await createService({ url, listen: { host: '127.0.0.1', port: 0 } })
  services.push(service)
  return Number(new URL(await service.listen()).port)
}

afterAll(async () => {
  for (const end of ends) await end()
  for (const service of services) await service.close({ drainMs: 0 })
  if (outcome.kind !== 'not run') await outcome.store.dispose()
})

describe.skipIf(outcome.kind === 'not run')(
  titled(
    'a connection that breaks while its caller waits',
    outcome.kind === 'not run' ? outcome.reason : null,
  ),
  () => {
    it('takes away nothing that the caller was granted by another instance', async () => {
      if (outcome.kind === 'not run') return
      const [first, second] = [await start(outcome.store.url), await start(outcome.store.url)]
      const proxy = await startProxy(first)
      ends.push(() => proxy.dispose())
      const name = randomBytes(6).toString('hex')
      const holder = await connect(`http://127.0.0.1:${second}`)
      const waiter = await connect(`http://127.0.0.1:${proxy.port},127.0.0.1:${second}`)
      ends.unshift(
        () => holder.close(),
        () => waiter.close(),
      )
      const held = await holder.mutex(name).acquire()
      const waiting = waiter.mutex(name).acquire({ waitMs: 50_000 })
      await expect.poll(async () => (await holder.inspect(name)).waiters.length, { timeout: 60_000 }).toBe(1)
      await new Promise((resolve) => setTimeout(resolve, 100))
      // The instance lives on, and sees that somebody hung up; the caller asks the other one for the same claim.
      proxy.refuse(true)
      proxy.cut()
      await held.release()
      const hold = await waiting
      await new Promise((resolve) => setTimeout(resolve, NOTICED_MS))
      hold.assertHeld()
      expect(await holder.mutex(name).tryAcquire()).toBe(null)
      await hold.extend()
      expect(await hold.release()).toBe('released')
    })
    it.each([
      ['keeps its place for a while where it may come back', 30_000, 1],
      ['leaves the line where it may not', 0, 0],
    ])('%s', async (_what, stayMs, waiters) => {
      if (outcome.kind === 'not run') return
      const port = await start(outcome.store.url)
      const locks = await connect(`http://127.0.0.1:${port}`)
      ends.unshift(() => locks.close())
      const name = randomBytes(6).toString('hex')
      await using _hold = await locks.mutex(name).acquire()
      const controller = new AbortController()
      const waiting = fetch(`http://127.0.0.1:${port}/v1/locks/${name}/acquire`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ waitMs: 50_000, stayMs, id: randomBytes(16).toString('hex') }),
        signal: controller.signal,
      }).catch(() => null)
      const inLine = async (): Promise<number> => (await locks.inspect(name)).waiters.length
      await expect.poll(inLine, { timeout: 60_000 }).toBe(1)
      controller.abort()
      expect(await waiting).toBe(null)
      await new Promise((resolve) => setTimeout(resolve, NOTICED_MS))
      await expect.poll(inLine, { timeout: 60_000 }).toBe(waiters)
    })
  },
)
