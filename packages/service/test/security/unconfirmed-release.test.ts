// @module-tag limits
/** A release that the store did not confirm may not have happened, so the claim counts on. */

import fastify, { type FastifyInstance } from 'fastify'
import type { Claim, Counter } from 'holdfast/service'
import { expect, it, onTestFinished } from 'vitest'
import { turns, until } from '../../../../test/support/wait.js'
import { answerProblems } from '../../src/problems.js'
import { Glances } from '../../src/routes/glances.js'
import { lockRoutes } from '../../src/routes/locks.js'
import { ClaimsHeld } from '../../src/security/claims-held.js'
import { limitsOf } from '../../src/security/limits.js'
import { ANYBODY, type Principal } from '../../src/security/principal.js'
import { WaiterLimits } from '../../src/security/waiters.js'
import { useSchemas } from '../../src/validation.js'
import type { Watcher } from '../../src/watch/watcher.js'
import { ask, pathOf } from './running-service.js'

const GUEST: Principal = { ...ANYBODY, name: 'guest' }
const WATCHER = { touch() {}, acquired() {}, released() {} } as unknown as Watcher

it('a claim counts on when its release was not confirmed, and not when the store has answered', async () => {
  const app = fastify({ forceCloseConnections: true }) as unknown as FastifyInstance
  onTestFinished(() => app.close())
  useSchemas(app)
  answerProblems(app, null)
  app.decorateRequest('claimRef', null)
  app.decorateRequest('principal', null as unknown as Principal)
  app.addHook('onRequest', async (request) => {
    request.principal = GUEST
  })
  let outcome = 'unconfirmed'
  let releases = 0
  const clients: string[] = []
  /** Settles when the store answers the next acquire. */
  let answer = Promise.resolve()
  const counter = {
    limits: { nameBytesMax: 512, ttlMinMs: 1, ttlMaxMs: 1_000_000 },
    settings: { ttlMs: 30_000 },
    acquire: async () => {
      await answer
      return { kind: 'granted', fence: 1n, remainingMs: 30_000, leaseMs: 30_000, waitedMs: 0 }
    },
    release: async ({ owner }: Claim) => {
      releases += 1
      clients.push(owner.client)
      return outcome
    },
  } as unknown as Counter
  const limits = limitsOf()
  const waiters = new WaiterLimits(limits)
  const view = { lookAnew: async () => false, isHeld: () => null }
  const claims = new ClaimsHeld(10, { view, isKept: () => false })
  const glances = new Glances(() => Promise.reject(new Error('not asked')))
  const isDraining = (): boolean => false
  await app.register(lockRoutes, { counter, limits, watcher: WATCHER, waiters, claims, glances, isDraining })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const post = (action: string, body: object, signal?: AbortSignal): ReturnType<typeof ask> =>
    ask(`${url}${pathOf('a', action)}`, { method: 'POST', body, ...(signal === undefined ? {} : { signal }) })

  const { claim } = (await post('acquire', {})).json
  expect((await post('release', { claim })).status).toBe(504)
  expect(claims.countOf('guest')).toBe(1)
  outcome = 'gone'
  expect((await post('release', { claim })).status).toBe(200)
  expect(claims.countOf('guest')).toBe(0)

  // How many are repeated at once goes by it.
  expect(clients).toEqual(['guest', 'guest'])

  // The same for a claim that the service releases, because its caller hung up.
  outcome = 'unconfirmed'
  let grant = (): void => {}
  answer = new Promise((resolve) => {
    grant = resolve
  })
  const hangUp = new AbortController()
  const asked = post('acquire', {}, hangUp.signal).catch(() => null)
  await until('it is asked for', () => claims.countOf('guest') === 1)
  hangUp.abort()
  await asked
  const before = releases
  const connections = (): Promise<number> =>
    new Promise((resolve) => app.server.getConnections((_error, count) => resolve(count)))
  await until('the service has seen the end', async () => (await connections()) === 0)
  grant()
  await until('it is released', () => releases > before)
  await turns(5)
  expect(claims.countOf('guest')).toBe(1)
})
