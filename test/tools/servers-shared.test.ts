import {
  hostSharedServers,
  missingPrograms,
  missingReason,
  redisCommand,
  sharedServersVariable,
  sharedStoreFor,
} from 'holdfast-servers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { inTurn } from '../../tools/test/sequencer.mjs'
import { titled } from '../support/titled.js'

const missing = missingPrograms(['redis-server'])
const why = missing.length > 0 ? missingReason(missing) : null

describe.skipIf(why !== null)(titled('servers that processes share', why), () => {
  it('are started once, and each caller gets a part of its own', async () => {
    const host = await hostSharedServers()
    onTestFinished(() => host.dispose())
    const env = { [sharedServersVariable]: host.socket }
    const outcomes = await Promise.all([sharedStoreFor('redis', env), sharedStoreFor('redis', env)])
    const urls = outcomes.map((outcome) => new URL(outcome.kind === 'ready' ? outcome.store.url : 'not:run'))
    expect(new Set(urls.map(({ port }) => port)).size).toBe(1)
    expect(new Set(urls.map(({ pathname }) => pathname)).size).toBe(2)
    const databases = urls.map(({ pathname }) => Number(pathname.slice(1)))
    expect(Math.min(...databases)).toBeGreaterThan(0)
    expect(await redisCommand(Number(urls[0]?.port), ['CONFIG', 'GET', 'databases'])).toContain('8192')
  })

  it('are not run where no servers may be started', async () => {
    expect(await sharedStoreFor('redis', { HOLDFAST_SERVERS: 'none' })).toMatchObject({ kind: 'not run' })
    expect(await sharedStoreFor('memory', { HOLDFAST_SERVERS: 'none' })).toMatchObject({ kind: 'ready' })
  })
})

describe('the order of test files', () => {
  it('takes from both lists in turn, and ends with what is left', () => {
    expect(inTurn(['a', 'b', 'c'], ['1'])).toEqual(['a', '1', 'b', 'c'])
    expect(inTurn([], ['1', '2'])).toEqual(['1', '2'])
  })
})
