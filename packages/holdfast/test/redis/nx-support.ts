/** What the tests of the recipes `set-nx` and `redlock` share. */

import { randomBytes } from 'node:crypto'
import type { RedisServer } from 'holdfast-servers'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { onTestFinished } from 'vitest'
import type { RedisClient } from '../../src/backends/redis/client.js'
import type { Claim, Patience, Verdict } from '../../src/core/backend.js'

/** For anything that must happen. A busy machine is not a fault. */
export const TIMEOUT_MS = 120_000

export const ONCE: Patience = { waitMs: 0, leaseMs: 5_000 }
export const PATIENT: Patience = { waitMs: 60_000, leaseMs: 5_000 }

/** Runs after the present test, the latest first. */
export function afterwards(cleanup: () => unknown): void {
  onTestFinished(async () => void (await cleanup()))
}

export function freshPrefix(): string {
  return `${randomBytes(6).toString('hex')}:`
}

export function claimOf(resource: string, changes: Partial<Claim> = {}): Claim {
  return {
    id: randomBytes(16).toString('hex'),
    resource,
    shape: { kind: 'mutex', limit: 1 },
    weight: 1,
    ttlMs: 30_000,
    owner: { host: 'box', pid: 7, client: 'c1' },
    note: null,
    ...changes,
  }
}

export interface Door {
  readonly port: number
}

export function ioredisTo({ port }: Door, options: object = {}): RedisClient {
  const client = new Redis({ port, host: '127.0.0.1', maxRetriesPerRequest: null, ...options })
  // Servers go down on purpose here.
  client.on('error', () => {})
  afterwards(() => client.disconnect())
  return client
}

export async function nodeRedisTo({ port }: Door): Promise<RedisClient> {
  const client = createClient({ url: `redis://127.0.0.1:${port}` })
  client.on('error', () => {})
  await client.connect()
  afterwards(() => client.destroy())
  return client
}

export function granted(verdict: Verdict): Extract<Verdict, { kind: 'granted' }> {
  if (verdict.kind !== 'granted') throw new Error(`Expected a grant, got ${JSON.stringify(verdict)}.`)
  return verdict
}

export function refused(verdict: Verdict): Extract<Verdict, { kind: 'refused' }> {
  if (verdict.kind !== 'refused') throw new Error(`Expected a refusal, got ${verdict.kind}.`)
  return verdict
}

/** What the promise rejects with; resolving is the failure. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  const settled = await promise.then(
    (value: unknown) => ({ value }),
    (error: unknown) => ({ error }),
  )
  if ('error' in settled) return settled.error
  throw new Error(`Expected a rejection, got ${String(settled.value)}.`)
}

export async function valueAt(server: RedisServer, key: string): Promise<string | null> {
  const value = await server.command('GET', key)
  return value === null ? null : String(value)
}

export async function leaseAt(server: RedisServer, key: string): Promise<number> {
  return Number(await server.command('PTTL', key))
}
