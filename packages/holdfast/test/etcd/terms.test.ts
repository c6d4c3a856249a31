/** A leader that was deposed and does not know it yet answers signs of life. Its word must not count. */

import { performance } from 'node:perf_hooks'
import { expect, onTestFinished, test } from 'vitest'
import { layoutFrom } from '../../src/backends/etcd/backend.js'
import type { Grpc, GrpcClient, GrpcStream } from '../../src/backends/etcd/client.js'
import { EtcdLink } from '../../src/backends/etcd/link.js'
import {
  type KeyValue,
  LEASE_GRANT,
  LEASE_KEEP_ALIVE,
  RANGE,
  TXN,
  type TxnRequest,
} from '../../src/backends/etcd/messages.js'
import { EtcdNodes } from '../../src/backends/etcd/nodes.js'
import type { Encoded } from '../../src/backends/etcd/proto.js'
import type { Claim } from '../../src/core/backend.js'
import { BackendUnavailableError } from '../../src/core/errors.js'
import { watchForStrays } from '../support/strays.js'
import { rejection } from './support.js'

watchForStrays()

const LEASE = 77n
const TTL = 45n

/** A server that says of itself what the test tells it to. */
class Stage {
  /** The term in which a majority answers. */
  term = 1n
  /** The term in which signs of life are answered. */
  leaderTerm = 1n
  signs = 0
  #kv: KeyValue | null = null

  get grpc(): Grpc {
    const answer = (path: string, message: unknown): Buffer => this.answer(path, message)
    const stream = (read: (bytes: Buffer) => unknown): GrpcStream => this.stream(read)
    class Client {
      makeUnaryRequest: GrpcClient['makeUnaryRequest'] = (path, _s, read, message, _m, done) => {
        setImmediate(() => done(null, read(answer(path, message))))
        return { cancel: () => {} }
      }
      makeBidiStreamRequest: GrpcClient['makeBidiStreamRequest'] = (_path, _s, read) => stream(read)
      close(): void {}
    }
    class Metadata {
      set(): void {}
    }
    return { Client, Metadata, credentials: { createInsecure: () => null, createSsl: () => null } }
  }

  answer(path: string, message: unknown): Buffer {
    const header = { revision: 9n, raftTerm: this.term }
    if (path === LEASE_GRANT.path) return LEASE_GRANT.response.encode({ header, id: LEASE, ttl: TTL })
    if (path === RANGE.path)
      return RANGE.response.encode({ header, kvs: this.#kv === null ? [] : [this.#kv] })
    const [op] = (message as Encoded<typeof TxnRequest>).success ?? []
    if (op?.put) {
      const { key = Buffer.of(), value = Buffer.of() } = op.put
      this.#kv = { key, value, lease: LEASE, createRevision: 9n, modRevision: 9n, version: 1n }
    }
    const range = { range: { kvs: this.#kv === null ? [] : [this.#kv] } }
    const responses = op?.put ? [{ put: {} }, range] : [range]
    return TXN.response.encode({ header, succeeded: true, responses })
  }

  stream(read: (bytes: Buffer) => unknown): GrpcStream {
    let listener: (message: unknown) => void = () => {}
    return {
      write: () => {
        this.signs += 1
        const header = { raftTerm: this.leaderTerm }
        const bytes = LEASE_KEEP_ALIVE.response.encode({ header, id: LEASE, ttl: TTL })
        setImmediate(() => listener(read(bytes)))
        return true
      },
      end: () => {},
      cancel: () => {},
      on: (event: string, given: (message: never) => void) => {
        if (event === 'data') listener = given as typeof listener
      },
    }
  }
}

function claimOf(id: string): Claim {
  const owner = { host: 'h', pid: 1, client: 'c' }
  return {
    id,
    resource: 'r',
    shape: { kind: 'mutex', limit: 1 },
    weight: 1,
    ttlMs: 30_000,
    owner,
    note: null,
  }
}

function nodesOn(stage: Stage): EtcdNodes {
  const access = { endpoints: ['nowhere:1'], tls: null, username: undefined, password: undefined }
  const nodes = new EtcdNodes(new EtcdLink(stage.grpc, access), layoutFrom({}))
  onTestFinished(() => nodes.close())
  return nodes
}

test('within one term, the lease counts from before it was asked for, and nothing more is asked', async () => {
  const stage = new Stage()
  const nodes = nodesOn(stage)
  const before = performance.now()
  const session = await nodes.startSession(Number(TTL), () => {})
  const granted = performance.now()
  const { aliveUntil, own } = await nodes.join(session, claimOf('a'))
  expect(aliveUntil - Number(TTL) * 1_000).toBeGreaterThanOrEqual(before)
  expect(aliveUntil - Number(TTL) * 1_000).toBeLessThanOrEqual(granted)
  expect(stage.signs).toBe(0)
  const confirmedAt = performance.now()
  const confirmed = await nodes.confirm(session, [own])
  expect(confirmed.there.has(own)).toBe(true)
  expect(confirmed.aliveUntil - Number(TTL) * 1_000).toBeGreaterThanOrEqual(confirmedAt)
})

test('after a change of the leader a sign of life is asked of the new one', async () => {
  const stage = new Stage()
  const nodes = nodesOn(stage)
  const session = await nodes.startSession(Number(TTL), () => {})
  stage.term = 2n
  stage.leaderTerm = 2n
  const joinedAt = performance.now()
  const { aliveUntil } = await nodes.join(session, claimOf('a'))
  expect(stage.signs).toBe(1)
  expect(aliveUntil - Number(TTL) * 1_000).toBeGreaterThanOrEqual(joinedAt)
})

test('the word of a leader that was deposed never counts', async () => {
  const stage = new Stage()
  const nodes = nodesOn(stage)
  const session = await nodes.startSession(Number(TTL), () => {})
  const { own } = await nodes.join(session, claimOf('a'))
  stage.term = 2n
  expect(await rejection(nodes.confirm(session, [own]))).toBeInstanceOf(BackendUnavailableError)
  expect(await rejection(nodes.read(session, claimOf('a'), own))).toBeInstanceOf(BackendUnavailableError)
  expect(stage.signs).toBeGreaterThan(1)
  stage.leaderTerm = 2n
  expect((await nodes.confirm(session, [own])).there.has(own)).toBe(true)
})
