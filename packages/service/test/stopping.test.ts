/** How a service stops: nobody is left waiting, nobody loses a hold, and what is under way is finished. */

import { connect } from 'holdfast'
import { describe, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.js'
import { createService, type Service } from '../src/index.js'
import { type Answer, ask, pathOf } from './security/running-service.js'

let stores = 0

async function start(): Promise<{ service: Service; store: string }> {
  stores += 1
  const store = `memory:stopping-${stores}`
  const service = await createService({ url: store, listen: { port: 0 } })
  await service.listen()
  return { service, store }
}

function post(service: Service, path: string, body: object = {}): Promise<Answer> {
  return ask(`${service.url}${path}`, { method: 'POST', body })
}

describe('a service that stops', () => {
  it('turns those who wait away, and leaves holds and kept places where they are', async () => {
    const { service, store } = await start()
    const others = await connect(store)
    expect((await post(service, pathOf('a', 'acquire'))).status).toBe(200)
    const waiting = post(service, pathOf('a', 'acquire'), { waitMs: 60_000 })
    const id = 'chosen-by-the-caller-00000001'
    const staying = post(service, pathOf('a', 'acquire'), { waitMs: 60_000, stayMs: 60_000, id })
    // Nobody could come back to this one.
    const unnamed = post(service, pathOf('a', 'acquire'), { waitMs: 60_000, stayMs: 60_000 })
    await until('all wait', async () => (await others.inspect('a')).waiters.length === 3)
    const closing = service.close({ drainMs: 30_000 })
    for (const answer of await Promise.all([waiting, staying, unnamed])) {
      expect([answer.status, answer.json['code']]).toEqual([503, 'DRAINING'])
      expect(answer.headers['retry-after']).toBe('1')
    }
    await closing
    const { holders, waiters } = await others.inspect('a')
    expect([holders.length, waiters.length]).toEqual([1, 1])
    await others.close()
  })

  it('closes streams and idle connections, and does not wait for them', async () => {
    const { service } = await start()
    const response = await fetch(`${service.url}/v1/events`)
    const reading = response.text()
    await fetch(`${service.url}/healthz`)
    await service.close({ drainMs: 30_000 })
    expect(await reading).toContain('event: hello')
    await expect(fetch(`${service.url}/healthz`)).rejects.toThrow()
  })

  it('says that it is not ready while it drains, and takes no new claims', async () => {
    const { service } = await start()
    const closing = service.close({ noticeMs: 10_000 })
    const [ready, acquired, alive] = await Promise.all([
      ask(`${service.url}/readyz`, {}),
      post(service, pathOf('a', 'acquire')),
      ask(`${service.url}/healthz`, {}),
    ])
    expect([ready.status, ready.json]).toMatchObject([503, { code: 'DRAINING' }])
    expect([acquired.status, acquired.json]).toMatchObject([503, { code: 'DRAINING' }])
    expect(alive.status).toBe(200)
    await closing
    await expect(ask(`${service.url}/healthz`, {})).rejects.toThrow()
  })

  it('can be told so twice', async () => {
    const { service } = await start()
    await Promise.all([service.close(), service.close()])
  })
})
