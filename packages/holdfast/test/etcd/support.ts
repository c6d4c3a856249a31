/** What the tests of etcd share. */

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import * as grpc from '@grpc/grpc-js'
import type { EtcdServer } from 'holdfast-servers'
import { onTestFinished } from 'vitest'
import type { EtcdAccess, Grpc } from '../../src/backends/etcd/client.js'
import { EtcdLink } from '../../src/backends/etcd/link.js'
import { openEtcd } from '../../src/backends/etcd/open.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { Backend } from '../../src/core/backend.js'
import type { Hold } from '../../src/core/hold.js'
import type { ClientOptions } from '../../src/core/options.js'

export const TIMEOUT_MS = 90_000

export const realGrpc = grpc as unknown as Grpc

export function freshName(): string {
  return `name-${randomBytes(6).toString('hex')}`
}

/** A way of its own to some members, which ends with the test. */
export function linkTo(
  ports: readonly number[],
  access: Partial<EtcdAccess> = {},
  requestMs?: number,
): EtcdLink {
  const endpoints = ports.map((port) => `127.0.0.1:${port}`)
  const given = { endpoints, tls: null, username: undefined, password: undefined, ...access }
  const link = new EtcdLink(realGrpc, given, requestMs)
  onTestFinished(() => link.close())
  return link
}

/** One client of the library that ends with the test. Outages are made on purpose here, and are waited out. */
export async function locksOver(backend: Backend, options: ClientOptions = {}): Promise<Locks> {
  const locks = await createLocks(backend, { outageMs: 60_000, ...options })
  onTestFinished(() => locks.close())
  return locks
}

export async function locksAt(url: string, options: ClientOptions = {}): Promise<Locks> {
  return await locksOver(await openEtcd(`${url}?versionWarning=false`), options)
}

export function urlOf(ports: readonly number[]): string {
  return `etcd://${ports.map((port) => `127.0.0.1:${port}`).join(',')}`
}

export async function rejection(call: Promise<unknown>): Promise<unknown> {
  try {
    await call
  } catch (error) {
    return error
  }
  throw new Error('It was expected to reject.')
}

/** Notes whether two believe at one time that they hold. */
export class Overlap {
  readonly #holding = new Map<string, Set<Hold>>()
  seen = 0
  count = 0

  enter(hold: Hold): void {
    const others = this.#holding.get(hold.resource) ?? new Set()
    this.#holding.set(hold.resource, others)
    for (const other of others) if (other.isHeld) this.seen += 1
    others.add(hold)
    this.count += 1
  }

  leave(hold: Hold): void {
    this.#holding.get(hold.resource)?.delete(hold)
  }
}

const run = promisify(execFile)

export async function etcdctl(server: EtcdServer, ...args: string[]): Promise<string> {
  const { stdout } = await run('etcdctl', args, { env: { ...process.env, ...server.env }, timeout: 120_000 })
  return stdout
}
