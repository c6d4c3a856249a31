/** Who listens, for how long, and what is kept from those who may not see everything. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { AuthEntry } from '../../src/security/auth-entries.js'
import {
  type Answer,
  makeTokens,
  pathOf,
  type RunningService,
  startService,
} from '../security/running-service.js'
import { type EventReader, listenTo } from './event-reader.js'

const closers: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function start(...options: Parameters<typeof startService>): Promise<RunningService> {
  const service = await startService(...options)
  closers.push(service.close)
  return service
}

async function listen(service: RunningService, token?: string): Promise<EventReader> {
  const reader = await listenTo(service.url, '/v1/events', token)
  closers.push(() => reader.close())
  return reader
}

async function take(service: RunningService, name: string, token: string, more: object = {}): Promise<void> {
  const { status } = await service.post(pathOf(name, 'acquire'), { ttlMs: 600_000, ...more }, { token })
  expect(status).toBe(200)
}

describe('a place among the listeners', () => {
  it('is not taken by whoever only asks for the head', async () => {
    const service = await start({ limits: { listenersMax: 2 } })
    const heads: Answer[] = []
    for (let round = 0; round < 3; round += 1) {
      heads.push(await service.get('/v1/events', { method: 'HEAD' }))
    }
    expect((await service.get('/v1/events', { headOnly: true })).status).toBe(200)
    for (const { status, headers } of heads) expect([status, headers['allow']]).toEqual([405, 'GET'])
  })

  it('is free again when a connection ends on which its answer still stood behind another one', async () => {
    const service = await start({ limits: { listenersMax: 1 } })
    await service.post(pathOf('held', 'acquire'), { ttlMs: 600_000 })
    const waiting = JSON.stringify({ waitMs: 30_000 })
    const socket = connect(service.port, '127.0.0.1')
    socket.on('error', () => undefined)
    const host = 'Host: localhost\r\n'
    const body = `Content-Type: application/json\r\nContent-Length: ${waiting.length}\r\n\r\n${waiting}`
    socket.write(
      `POST /v1/locks/held/acquire HTTP/1.1\r\n${host}${body}GET /v1/events HTTP/1.1\r\n${host}\r\n`,
    )
    const listenersBecome = async (count: number): Promise<void> => {
      const line = `holdfast_http_listeners ${count}`
      await expect.poll(async () => (await service.get('/metrics')).text, { timeout: 60_000 }).toContain(line)
    }
    await listenersBecome(1)
    socket.destroy()
    await listenersBecome(0)
    expect((await service.get('/v1/events', { headOnly: true })).status).toBe(200)
  })
})

describe('a stream', () => {
  /** What stands in the file in the place of the entry. */
  type Edit = (entry: AuthEntry) => readonly AuthEntry[]

  /** A service by an auth file with one token that may do everything, and the way to change its entry. */
  async function startWithFile(): Promise<{
    readonly service: RunningService
    readonly token: string
    readonly change: (edit: Edit) => Promise<void>
  }> {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-listeners-'))
    closers.push(() => rm(folder, { recursive: true, force: true }))
    const path = join(folder, 'auth.json')
    const { auth, token } = makeTokens({ ops: [{ prefix: '', can: ['acquire', 'inspect'] }] })
    const change = (edit: Edit): Promise<void> =>
      writeFile(path, JSON.stringify({ tokens: auth.tokens.flatMap(edit) }))
    await change((entry) => [entry])
    return { service: await start({ auth: path }), token: token.ops, change }
  }

  const changes: [string, Edit, number][] = [
    ['is revoked', () => [], 401],
    ['has run out', (entry) => [{ ...entry, expires: '2001-01-01T00:00:00Z' }], 401],
    ['may see less', (entry) => [{ ...entry, rights: [{ prefix: 'mine/', can: ['inspect'] }] }], 200],
  ]
  it.each(changes)('ends when its token %s', async (_what, edit, statusAfter) => {
    const { service, token, change } = await startWithFile()
    const reader = await listen(service, token)
    await reader.until('hello', () => reader.of('hello')[0])
    await change(edit)
    await reader.until('the end', () => (reader.hasEnded ? true : undefined))
    const { status } = await service.get('/v1/events', { token, headOnly: true })
    expect(status).toBe(statusAfter)
  })

  it('goes on when only other tokens change', async () => {
    const { service, token, change } = await startWithFile()
    const reader = await listen(service, token)
    const { auth } = makeTokens({ other: [{ prefix: '', can: ['inspect'] }] })
    await change((entry) => [...auth.tokens, entry])
    const isRead = (): boolean =>
      service.lines.some((line) => line.kind === 'notice' && line.text.includes('2 tokens'))
    await expect.poll(isRead, { timeout: 60_000 }).toBe(true)
    const told = reader.of('stats').length
    await reader.until('statistics after that', () => reader.of('stats')[told + 1])
    expect(reader.hasEnded).toBe(false)
  })
})

describe('a listener who may see only some names', () => {
  const { auth, token } = makeTokens({
    all: [{ prefix: '', can: ['acquire', 'inspect', 'break'] }],
    mine: [{ prefix: 'mine/', can: ['inspect'] }],
  })

  it('is told how many of them there are, and never of the others', async () => {
    const service = await start({ auth })
    for (const name of ['theirs/1', 'theirs/2', 'theirs/3']) await take(service, name, token.all)
    const [mine, all] = [await listen(service, token.mine), await listen(service, token.all)]
    await all.until('all of them', () => all.of('stats').find(({ locks }) => locks === 3))
    await mine.until('statistics', () => mine.of('stats')[0])
    expect(mine.of('stats').every(({ locks }) => locks === 0)).toBe(true)

    await take(service, 'mine/1', token.all)
    await take(service, 'theirs/4', token.all)
    const both = await all.until('all of them', () => all.of('stats').find(({ locks }) => locks === 5))
    expect(both).toMatchObject({ holders: 5, lookMs: expect.any(Number) })
    const own = await mine.until('its own', () => mine.of('stats').find(({ locks }) => locks === 1))
    expect(own).toMatchObject({ holders: 1, waiters: 0, stale: false, truncated: false })
    for (const name of ['mine/1', 'theirs/4']) {
      await service.post(pathOf(name, 'break'), { reason: 'a test' }, { token: token.all })
    }
    await mine.until('its end', () => mine.of('stats').find(({ broken }) => broken === 1))
    await mine.until('nothing', () => (mine.of('stats').at(-1)?.['locks'] === 0 ? true : undefined))

    const stats = mine.of('stats')
    const total = (of: string): number => stats.reduce((sum, each) => sum + Number(each[of]), 0)
    expect([total('acquired'), total('broken'), total('released')]).toEqual([1, 1, 0])
    for (const each of stats) {
      expect([Number(each['locks']) <= 1, Number(each['holders']) <= 1, each['waiters']]).toEqual([
        true,
        true,
        0,
      ])
      expect(each['lookMs']).toBeNull()
    }
  })

  it('is not told that deadlocks of the others come and go', async () => {
    const service = await start({ auth })
    const [mine, all] = [await listen(service, token.mine), await listen(service, token.all)]
    const [one, two] = ['one', 'two'].map((client, index) => ({ host: 'h', pid: index + 1, client }))
    await take(service, 'theirs/x', token.all, { owner: one })
    await take(service, 'theirs/y', token.all, { owner: two })
    const gone = new AbortController()
    const asking = { token: token.all, signal: gone.signal }
    const waits = [
      service.post(pathOf('theirs/y', 'acquire'), { owner: one, waitMs: 50_000 }, asking),
      service.post(pathOf('theirs/x', 'acquire'), { owner: two, waitMs: 50_000 }, asking),
    ].map((wait) => wait.catch(() => null))
    const count = (reader: EventReader): readonly number[] =>
      reader.of('deadlocks').map(({ deadlocks }) => (deadlocks as unknown[]).length)
    await all.until('a deadlock', () => (count(all).includes(1) ? true : undefined))
    gone.abort()
    await Promise.all(waits)
    await all.until('its end', () => (count(all).at(-1) === 0 ? true : undefined))
    await take(service, 'mine/later', token.all)
    await mine.until('a change after that', () => mine.of('change')[0])
    expect(count(mine)).toEqual([0])
  })
})
