import {
  type ConsulServer,
  missingPrograms,
  missingReason,
  requiredStores,
  startConsul,
  stores,
} from 'holdfast-servers'
import { afterAll, onTestFinished } from 'vitest'
import { openConsul } from '../../src/backends/consul/open.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { ClientOptions } from '../../src/core/options.js'

const [missing] = missingPrograms(['consul'])
const required = requiredStores(process.env['HOLDFAST_REQUIRE_STORES'], [...stores.keys()])
if (missing !== undefined && required.has('consul')) throw new Error(`${missing} is required and not there.`)

export const isMissing = missing !== undefined
/** Why nothing can be run here. */
export const whyMissing = missing === undefined ? null : missingReason([missing])

/** Gives one server for all tests of a file, which the first test that asks for it starts. */
export function serverOfFile(): () => Promise<ConsulServer> {
  let started: Promise<ConsulServer> | null = null
  afterAll(async () => {
    await (await started)?.dispose()
  })
  return () => {
    started ??= startConsul()
    return started
  }
}

/** Short sessions, as the servers of these tests take them, and no delay after a loss. */
export const QUICK = 'ttlMinMs=1000&lockDelayMs=0'

/** A client that is closed when the test ends. */
export async function connectTo(url: string, options: ClientOptions = {}): Promise<Locks> {
  const locks = await createLocks(await openConsul(url), { ttlMs: 10_000, ...options })
  onTestFinished(() => locks.close())
  return locks
}

export interface StoredKey {
  readonly Key: string
  readonly Session?: string
  readonly Value: string | null
}

/** Everything in the store, as the agent tells it. */
export async function keysOf(consul: ConsulServer, prefix = ''): Promise<StoredKey[]> {
  const { status, text } = await consul.request('GET', `/v1/kv/${prefix}?recurse=true&consistent`)
  return status === 404 ? [] : (JSON.parse(text) as StoredKey[])
}

export async function sessionsOf(
  consul: ConsulServer,
): Promise<{ readonly ID: string; readonly Name: string }[]> {
  const { text } = await consul.request('GET', '/v1/session/list?consistent')
  return JSON.parse(text) as { ID: string; Name: string }[]
}
