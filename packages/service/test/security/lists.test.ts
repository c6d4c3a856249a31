// @module-tag secrets
// @module-tag limits
/** T12: lists walk through the whole store, so there is an end to how many are made, and to those nobody waits for. */

import fastify, { type FastifyInstance } from 'fastify'
import type { ResourceView } from 'holdfast'
import type { Counter } from 'holdfast/service'
import { afterEach, expect, test } from 'vitest'
import { turns, until } from '../../../../test/support/wait.js'
import { answerProblems } from '../../src/problems.js'
import { lookRoutes } from '../../src/routes/looks.js'
import { ClaimsHeld } from '../../src/security/claims-held.js'
import { limitsOf } from '../../src/security/limits.js'
import { ANYBODY, type Principal } from '../../src/security/principal.js'
import { useSchemas } from '../../src/validation.js'
import type { Watcher } from '../../src/watch/watcher.js'
import { type Answer, ask } from './running-service.js'

let app: FastifyInstance | null = null
afterEach(async () => {
  await app?.close()
  app = null
})

const NAMES = 200_000
/** Names that the store has shown. */
let shown = 0

function viewOf(index: number): ResourceView {
  return { resource: `name-${String(index).padStart(6, '0')}`, shape: null, holders: [], waiters: [] }
}

/** The route as it is, over a store of the test's own. Who asks is said by a header. */
async function serve(
  list: Counter['list'],
  limits: Parameters<typeof limitsOf>[0] = {},
  inspect: Counter['inspect'] = () => Promise.reject(new Error('not asked')),
): Promise<string> {
  const made = fastify({ forceCloseConnections: true }) as unknown as FastifyInstance
  app = made
  shown = 0
  useSchemas(made)
  answerProblems(made, null)
  made.decorateRequest('principal', null as unknown as Principal)
  made.addHook('onRequest', async (request) => {
    request.principal = { ...ANYBODY, name: String(request.headers['x-name'] ?? 'http') }
  })
  made.get('/other', async () => ({ isServed: true }))
  const counter = { list, inspect, limits: { nameBytesMax: 512 } } as unknown as Counter
  const watcher = null as unknown as Watcher
  await made.register(lookRoutes, {
    counter,
    limits: limitsOf(limits),
    watcher,
    log: null,
    claims: new ClaimsHeld(1, { view: watcher, isKept: () => false }),
  })
  return await made.listen({ host: '127.0.0.1', port: 0 })
}

/** A store that has everything at hand, so that it never waits. */
async function* everything(): AsyncGenerator<ResourceView> {
  for (; shown < NAMES; shown += 1) yield viewOf(shown)
}

test('only a few lists are made at once, and fewer for one token; whoever is answered makes room', async () => {
  const open: (() => void)[] = []
  const list = async function* (): AsyncGenerator<ResourceView> {
    yield viewOf(0)
    await new Promise<void>((resolve) => open.push(resolve))
  }
  const url = await serve(list, { listsMax: 3, listsPerPrincipalMax: 2 })
  const listed = (name: string): Promise<Answer> => ask(`${url}/v1/locks`, { headers: { 'x-name': name } })
  const answers: Promise<Answer>[] = []
  const begin = async (name: string): Promise<void> => {
    const begun = open.length
    answers.push(listed(name))
    await expect.poll(() => open.length, { timeout: 60_000 }).toBe(begun + 1)
  }
  await begin('one')
  // One of these waits for the first, and the other one is refused.
  const more = [listed('one'), listed('one')]
  const own = await Promise.race(more)
  for (const answer of more) {
    if ((await Promise.race([answer, Promise.resolve(null)])) !== own) answers.push(answer)
  }
  expect([own.status, own.json['code']]).toEqual([429, 'TOO_MANY'])
  expect(own.json['detail']).toContain('with this token')
  expect(Number(own.headers['retry-after'])).toBeGreaterThanOrEqual(1)
  await begin('two')
  expect((await listed('three')).status).toBe(429)
  open[0]?.()
  expect((await answers[0])?.status).toBe(200)
  await expect.poll(() => open.length, { timeout: 60_000 }).toBe(3)
  await begin('three')
  for (const end of open) end()
  for (const answer of answers) expect((await answer).json['locks']).toHaveLength(1)
})

test('requests for one name at the same time share its looks', async () => {
  let looks = 0
  let end = (): void => {}
  const isOpen = new Promise<void>((resolve) => {
    end = resolve
  })
  const inspect = async (): Promise<ResourceView> => {
    looks += 1
    await isOpen
    return viewOf(1)
  }
  const url = await serve(everything, {}, inspect)
  let came = 0
  app?.server.on('request', () => (came += 1))
  const answers = Array.from({ length: 20 }, () => ask(`${url}/v1/locks/name-000001`, {}))
  await until('all have come', () => came === 20)
  await turns(5)
  end()
  for (const answer of answers) expect((await answer).json).toMatchObject({ name: 'name-000001' })
  expect(looks).toBeLessThanOrEqual(2)
})

test('a list lets others be served in between', async () => {
  const url = await serve(everything)
  let isListed = false
  const listing = ask(`${url}/v1/locks?limit=1&after=name-199998`, {}).then((answer) => {
    isListed = true
    return answer
  })
  await expect.poll(() => shown, { timeout: 60_000, interval: 1 }).toBeGreaterThan(0)
  expect((await ask(`${url}/other`, {})).status).toBe(200)
  expect(isListed).toBe(false)
  expect((await listing).json).toMatchObject({ locks: [{ name: 'name-199999' }], next: null })
})

test('a page has a limit in bytes, which text of three bytes per character does not exceed', async () => {
  const note = '锁'.repeat(340)
  const owner = { host: 'h', pid: 1, client: 'c' }
  const claim = { ref: 'r', owner, note, weight: 1, fence: 1n, ageMs: 0, remainingMs: 1 }
  const shape = { kind: 'semaphore', limit: 40 } as const
  const list = async function* (): AsyncGenerator<ResourceView> {
    for (; shown < 300; shown += 1)
      yield { ...viewOf(shown), shape, holders: Array.from({ length: 40 }, () => claim) }
  }
  const url = await serve(list)
  const { status, text, json } = await ask(`${url}/v1/locks`, {})
  expect(status).toBe(200)
  expect(json['next']).not.toBe(null)
  expect(Buffer.byteLength(text)).toBeGreaterThan(1_024 * 1_024)
  expect(Buffer.byteLength(text)).toBeLessThan(1.2 * 1_024 * 1_024)
})

test('a list ends when nobody waits for it any more', async () => {
  const url = await serve(everything)
  const gone = new AbortController()
  const listing = ask(`${url}/v1/locks?after=name-199998`, { signal: gone.signal })
  await expect.poll(() => shown, { timeout: 60_000, interval: 1 }).toBeGreaterThan(0)
  gone.abort()
  await expect(listing).rejects.toThrow()
  let before = -1
  await expect
    .poll(
      () => {
        const isStill = shown === before
        before = shown
        return isStill
      },
      { timeout: 60_000, interval: 200 },
    )
    .toBe(true)
  expect(shown).toBeLessThan(NAMES)
})
