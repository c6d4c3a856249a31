/** What is listened to outlives very many claims, so every claim takes its listeners away again. */

import { EventEmitter, getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { endOrPause } from '../../src/backends/postgres/listen.js'
import { ConnectionBackend } from '../../src/backends/sessions/connection-backend.js'
import type { SqlResult } from '../../src/backends/sql/link.js'
import { PooledSession } from '../../src/backends/sql/pooled-session.js'
import { EphemeralNode } from '../../src/backends/zookeeper/ephemeral.js'
import { partsBelow } from '../../src/backends/zookeeper/layout.js'
import type { SequentialOptions } from '../../src/backends/zookeeper/sequential.js'
import type { ZookeeperSession } from '../../src/backends/zookeeper/session.js'
import { ZooKeeperError } from '../../src/backends/zookeeper/wire/errors.js'
import { claimOf, NO_SINK } from '../support/claims.js'
import { CountedSession, keepingOn } from './counted-session.js'

const PATIENCE = { waitMs: 0, leaseMs: 5_000 }

test('a claim that is released leaves no listener on the session that it shared', async () => {
  const session = new CountedSession()
  const backend = new ConnectionBackend(keepingOn(session))
  await backend.open(NO_SINK)
  const kept = claimOf('kept')
  await backend.attempt(kept, PATIENCE)
  for (let claims = 0; claims < 3; claims += 1) {
    const claim = claimOf('passing')
    await backend.attempt(claim, PATIENCE)
    expect(session.listeners.size).toBe(2)
    expect(await backend.release(claim)).toBe('released')
  }
  expect(session.listeners.size).toBe(1)
  await backend.close()
})

class FakeSession extends PooledSession<EventEmitter & { release(): void }> {
  protected override async ask(): Promise<SqlResult> {
    return { rows: [], affected: 0 }
  }

  protected override shut(): void {}
}

test('a connection does not call a listener that was removed', () => {
  const session = new FakeSession(Object.assign(new EventEmitter(), { release: () => {} }))
  const called: string[] = []
  const unlisten = session.onEnd(() => called.push('first'))
  session.onEnd(() => called.push('second'))
  unlisten()
  session.destroy()
  expect(called).toEqual(['second'])
})

test('a ping of the connection that listens leaves nothing behind', async () => {
  const session = new CountedSession()
  const closing = new AbortController()
  for (let pings = 0; pings < 3; pings += 1) await endOrPause(1, session, closing.signal)
  expect(session.listeners.size).toBe(0)
  expect(getEventListeners(closing.signal, 'abort')).toHaveLength(0)
  // Whichever ends it, it leaves nothing.
  const pausing = endOrPause(60_000, session, closing.signal)
  closing.abort()
  await pausing
  expect(session.listeners.size).toBe(0)
})

test('ZooKeeper: a lock that is over is not told of the end of its session, and one name has one watch', async () => {
  const watches = new Set<unknown>()
  let isTaken = false
  let end = (): void => {}
  const refused = new ZooKeeperError('NODE_EXISTS', 'the node exists already')
  const client = {
    sessionId: 7n,
    multi: async () => {
      if (isTaken) throw refused
      return [{ type: 'setData', stat: { mzxid: 1n, version: 1, numChildren: 0 } }]
    },
    exists: async (_path: string, watch: unknown) => watches.add(watch),
  }
  const node = new EphemeralNode({
    layout: partsBelow(['locks']),
    acl: [],
    ttlMaxMs: 60_000,
    start: async (ended) => {
      end = ended
      return { client, isEnded: false, end: async () => {} } as unknown as ZookeeperSession
    },
    looking: () => Promise.reject(new Error('not here')),
    close: async () => {},
  } satisfies SequentialOptions)
  const held = await node.take(claimOf('held'))
  const called: string[] = []
  const unlisten = held?.session.onEnd(() => called.push('over'))
  held?.session.onEnd(() => called.push('held'))
  unlisten?.()
  isTaken = true
  for (let tries = 0; tries < 3; tries += 1) expect(await node.take(claimOf('busy'))).toBeNull()
  expect(watches.size).toBe(1)
  end()
  expect(called).toEqual(['held'])
})
