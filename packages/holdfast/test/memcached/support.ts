import {
  type MemcachedServer,
  missingPrograms,
  missingReason,
  requiredStores,
  startMemcached,
  stores,
} from 'holdfast-servers'
import { onTestFinished } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { openMemcached } from '../../src/backends/memcached/open.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Backend } from '../../src/core/backend.js'
import type { Hold } from '../../src/core/hold.js'
import type { ClientOptions } from '../../src/core/options.js'
import { NO_SINK } from '../support/claims.js'

const [missing] = missingPrograms(['memcached'])
const required = requiredStores(process.env['HOLDFAST_REQUIRE_STORES'], [...stores.keys()])
if (missing !== undefined && required.has('memcached'))
  throw new Error(`${missing} is required and not there.`)

/** Without the program there is nothing to test; the reason is in the title of the skipped tests. */
export const isMissing = missing !== undefined
export const whyMissing = missing === undefined ? null : missingReason([missing])

export const RECIPES = ['record', 'add'] as const

export async function started(...options: Parameters<typeof startMemcached>): Promise<MemcachedServer> {
  const server = await startMemcached(...options)
  onTestFinished(() => server.dispose())
  return server
}

export async function backendAt(url: string): Promise<Backend> {
  const backend = await openMemcached(url)
  onTestFinished(() => backend.close())
  await backend.open(NO_SINK)
  return backend
}

export async function locksAt(url: string, options: ClientOptions = {}): Promise<Locks> {
  const locks = await createLocks(await openMemcached(url), options)
  onTestFinished(() => locks.close())
  return locks
}

/** Why the hold was lost, once it is. */
export async function lossOf(hold: Hold): Promise<unknown> {
  await until('the signal aborts', () => hold.signal.aborted)
  return Reflect.get(Object(hold.signal.reason), 'reason')
}

export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('It did not reject.')
}
