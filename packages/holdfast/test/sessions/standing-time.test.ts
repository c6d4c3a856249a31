/** A claim that was granted is not given up by the backend before the core stops believing in it. */

import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { ETCD_GUARANTEES } from '../../src/backends/etcd/nodes.js'
import { ConnectionBackend } from '../../src/backends/sessions/connection-backend.js'
import { LineBackend } from '../../src/backends/sessions/line-backend.js'
import type { LineNode, LineNodes, NodeSession, OwnNode } from '../../src/backends/sessions/nodes.js'
import type { Claim } from '../../src/core/backend.js'
import { NO_SINK } from '../support/claims.js'
import { CountedSession, keepingOn } from './counted-session.js'

const TTL_MS = 3_000
const SHAPE = { kind: 'mutex', limit: 1 } as const
const OWN: OwnNode = { key: 'own', fence: 7n }
const NODE: LineNode = { key: 'own', shape: SHAPE, weight: 1 }
const FIRST: LineNode = { key: 'first', shape: SHAPE, weight: 1 }

/** One claim behind another, which goes when it is told to. */
class TwoNodes implements LineNodes<NodeSession, OwnNode> {
  readonly name = 'two'
  readonly guarantees = ETCD_GUARANTEES
  line: readonly LineNode[] = [FIRST, NODE]
  removedAt: number | null = null
  /** What happens while a question is under way. */
  meanwhile: () => Promise<unknown> = async () => {}

  sessionKey(): number {
    return 1
  }
  async startSession(): Promise<NodeSession> {
    return { isEnded: false, end: async () => {} }
  }
  async join() {
    return { own: OWN, line: this.line, aliveUntil: performance.now() + 60_000 }
  }
  async read() {
    const { line } = this
    await this.meanwhile()
    return { line, aliveUntil: performance.now() + 60_000 }
  }
  watch(): () => void {
    return () => {}
  }
  async lighten(): Promise<void> {}
  async remove(): Promise<boolean> {
    this.removedAt ??= performance.now()
    return true
  }
  async confirm(_session: NodeSession, own: readonly OwnNode[]) {
    return { there: new Set(own), aliveUntil: performance.now() + 60_000 }
  }
  async holderOf(): Promise<null> {
    return null
  }
  async view(): Promise<[]> {
    return []
  }
  async *names(): AsyncIterable<string> {}
  async removeViewed(): Promise<boolean> {
    return false
  }
  async close(): Promise<void> {}
}

const CLAIM: Claim = {
  id: 'claim',
  resource: 'name',
  shape: SHAPE,
  weight: 1,
  ttlMs: TTL_MS,
  owner: { host: 'h', pid: 1, client: 'c' },
  note: null,
}
const PATIENCE = { waitMs: 10_000, leaseMs: TTL_MS }

async function opened(nodes: TwoNodes): Promise<LineBackend<NodeSession, OwnNode>> {
  const backend = new LineBackend(nodes)
  await backend.open({ granted() {}, wanted() {}, hint() {}, lost() {} })
  onTestFinished(() => backend.close())
  return backend
}

test('a grant that comes late in the life of a place lasts as long as it says', async () => {
  const nodes = new TwoNodes()
  const backend = await opened(nodes)
  expect(await backend.attempt(CLAIM, PATIENCE)).toMatchObject({ kind: 'waiting' })
  await sleep(TTL_MS / 2)
  nodes.line = [NODE]
  const askedAt = performance.now()
  expect(await backend.attempt(CLAIM, PATIENCE)).toMatchObject({ kind: 'granted', leaseMs: TTL_MS })
  // Nobody renews it, so it is given up in the end, and not before.
  const removedAt = await until('it is given up', () => nodes.removedAt)
  expect(removedAt - askedAt).toBeGreaterThanOrEqual(TTL_MS)
})

test('what is given up while it is asked about is not granted', async () => {
  const nodes = new TwoNodes()
  const backend = await opened(nodes)
  await backend.attempt(CLAIM, PATIENCE)
  nodes.line = [NODE]
  nodes.meanwhile = () => backend.release(CLAIM)
  expect(await backend.attempt(CLAIM, PATIENCE)).toMatchObject({ kind: 'refused' })
  expect(nodes.removedAt).not.toBeNull()
})

test('a claim that is asked for again keeps what a renewal promised', async () => {
  const backend = new ConnectionBackend(keepingOn(new CountedSession()))
  await backend.open(NO_SINK)
  onTestFinished(() => backend.close())
  const claim = { ...CLAIM, ttlMs: 200 }
  await backend.attempt(claim, PATIENCE)
  const renewal = { claim, fence: 1n, leaseMs: 600_000 }
  expect(await backend.renew([renewal])).toEqual(['held'])
  expect(await backend.attempt(claim, PATIENCE)).toMatchObject({ kind: 'granted' })
  await sleep(1_000)
  expect(await backend.renew([renewal])).toEqual(['held'])
})
