/** Claims as keys that a lease keeps, for the line that all stores with sessions share. */

import type { Claim, Guarantees, HolderNote } from '../../core/backend.js'
import { LIMIT_MAX } from '../../core/line.js'
import { NAME_BYTES_MAX } from '../../core/names.js'
import type { Confirmed, Joined, LineNode, LineNodes, OwnNode, Read, ViewedNode } from '../sessions/nodes.js'
import { wallMs } from '../shared/clock.js'
import { leaseGone, strangeAnswer } from './errors.js'
import { KeepAlive } from './keep-alive.js'
import type { Layout } from './layout.js'
import { type EtcdLineNode, readLine, viewedNode } from './line.js'
import type { EtcdLink } from './link.js'
import {
  type Compare,
  EQUAL,
  EVENT_DELETE,
  OF_CREATION,
  OF_LEASE,
  RANGE,
  type RangeRequest,
  READ_TXN,
  type RequestOp,
  SORT_ASCENDING,
  SORT_BY_CREATION,
  TXN,
  type TxnResponse,
  type WatchEvent,
} from './messages.js'
import { digestOf, readRecord, writeRecord } from './record.js'
import { type Credit, EtcdSession, headerOf, isLeaseGone, leaseSecondsFor, livesUntil } from './session.js'
import { Watcher } from './watcher.js'

/** The key of a claim of this client. */
export interface EtcdNode extends OwnNode {
  readonly bytes: Buffer
  /** The key may be used for another claim. */
  free(): void
}

export const ETCD_GUARANTEES: Guarantees = {
  keptBy: 'session',
  safety: 'consensus',
  fencing: 'strict',
  waiting: 'push',
  fair: true,
  weights: 'any',
  shows: 'claims',
  limitMax: LIMIT_MAX,
  // The leader counts leases down by its monotonic clock, and a new one begins again with the whole length.
  clock: 'server-monotonic',
  ttlMinMs: 1_000,
  ttlMaxMs: 24 * 60 * 60 * 1_000,
  ttlStepMs: 1,
  nameBytesMax: NAME_BYTES_MAX,
}

/** What a server takes in one transaction unless it was told otherwise. */
const OPS_MAX = 128
const PAGE = 512n

const BY_CREATION = { sortOrder: SORT_ASCENDING, sortTarget: SORT_BY_CREATION }

export class EtcdNodes implements LineNodes<EtcdSession, EtcdNode> {
  readonly name = 'etcd'
  readonly guarantees = ETCD_GUARANTEES
  readonly #link: EtcdLink
  readonly #layout: Layout
  readonly #keepAlive: KeepAlive
  readonly #watcher: Watcher

  constructor(link: EtcdLink, layout: Layout) {
    this.#link = link
    this.#layout = layout
    this.#keepAlive = new KeepAlive(link)
    this.#watcher = new Watcher(link)
  }

  sessionKey(ttlMs: number): number {
    return leaseSecondsFor(ttlMs)
  }

  async startSession(key: number, ended: () => void): Promise<EtcdSession> {
    return await EtcdSession.start(this.#link, this.#keepAlive, key, ended)
  }

  async join(session: EtcdSession, claim: Claim): Promise<Joined & { readonly own: EtcdNode }> {
    const { id, resource } = claim
    const value = writeRecord(claim, wallMs())
    const line: RequestOp = { range: { ...this.#layout.lineOf(resource), ...BY_CREATION } }
    for (;;) {
      const bytes = this.#layout.keyOf(resource, session.id, session.slots.of(id, resource))
      const { credit } = session
      const answer = await this.#change(session, {
        compare: [created(bytes, 0n)],
        success: [{ put: { key: bytes, value, lease: session.id } }, line],
        failure: [line],
      })
      const kvs = answer.responses.at(-1)?.range?.kvs ?? []
      const kv = kvs.find((each) => each.key.equals(bytes))
      if (kv === undefined) throw strangeAnswer('the key that it has just made')
      // A claim that was moved to another lease keeps its key, and what was asked of it late may have made it again.
      const isOurs = answer.succeeded || readRecord(kv.value).digest === digestOf(id)
      if (!isOurs || kv.lease !== session.id) {
        session.slots.spoil(id)
        continue
      }
      const free = (): void => session.slots.free(id)
      const own = { key: bytes.toString('latin1'), fence: kv.createRevision, bytes, free }
      const aliveUntil = await livesUntil(this.#link, session, credit, answer, bytes)
      return { own, line: readLine(kvs, headerOf(answer).revision, own.fence), aliveUntil }
    }
  }

  async read(session: EtcdSession, claim: Claim, own: EtcdNode): Promise<Read | null> {
    const { credit } = session
    const range: RangeRequest = {
      ...this.#layout.lineOf(claim.resource),
      ...BY_CREATION,
      maxCreateRevision: own.fence,
    }
    const answer = await this.#link.call(RANGE, range)
    const last = answer.kvs.at(-1)
    // Whoever was away for long may find that its key went with its lease, and that the line is somebody else's.
    const isOurs = last?.createRevision === own.fence && last.key.equals(own.bytes)
    if (!isOurs || last.lease !== session.id) {
      own.free()
      return null
    }
    const aliveUntil = await livesUntil(this.#link, session, credit, answer, own.bytes)
    return { line: readLine(answer.kvs, headerOf(answer).revision, own.fence), aliveUntil }
  }

  watch(
    _session: EtcdSession,
    _claim: Claim,
    nodes: readonly LineNode[],
    changed: (gone?: LineNode) => void,
  ): () => void {
    let isOver = false
    const stops: (() => void)[] = []
    const stop = (): void => {
      isOver = true
      for (const each of stops.splice(0)) each()
    }
    const tell = (gone?: LineNode): void => {
      if (isOver) return
      stop()
      changed(gone)
    }
    for (const node of nodes as readonly EtcdLineNode[]) {
      const seen = (events: readonly WatchEvent[]): void => {
        if (events.some(({ type }) => type === EVENT_DELETE)) tell(node)
        else if (events.some((event) => isLighter(event, node))) tell()
      }
      // Of an exclusive claim only the end is of interest.
      const watched = { key: node.bytes, from: node.readAt + 1n, withPuts: node.shape.kind !== 'mutex' }
      stops.push(this.#watcher.watch(watched, seen, () => tell()))
    }
    return stop
  }

  async lighten(session: EtcdSession, claim: Claim, own: EtcdNode): Promise<void> {
    const value = writeRecord(claim, wallMs())
    await this.#change(session, {
      compare: [created(own.bytes, own.fence), leased(own.bytes, session.id)],
      success: [{ put: { key: own.bytes, value, ignoreLease: true } }],
    })
  }

  async remove(session: EtcdSession, claim: Claim, own: EtcdNode | null): Promise<boolean> {
    const { id, resource } = claim
    const key = own?.bytes ?? this.#layout.keyOf(resource, session.id, session.slots.of(id, resource))
    const answer = await this.#link.call(TXN, {
      compare: [leased(key, session.id), ...(own === null ? [] : [created(key, own.fence)])],
      success: [{ deleteRange: { key } }],
    })
    if (own === null) session.slots.free(id)
    else own.free()
    return answer.succeeded
  }

  async confirm(session: EtcdSession, own: readonly EtcdNode[]): Promise<Confirmed<EtcdNode>> {
    const there = new Set<EtcdNode>()
    let credit: Credit
    try {
      credit = await session.refresh()
    } catch (error) {
      if (session.isEnded) return { there, aliveUntil: Number.NEGATIVE_INFINITY }
      throw error
    }
    const chunks: (readonly EtcdNode[])[] = []
    for (let at = 0; at < own.length; at += OPS_MAX) chunks.push(own.slice(at, at + OPS_MAX))
    const ends = await Promise.all(
      chunks.map(async (chunk) => {
        const success = chunk.map(({ bytes }) => ({ range: { key: bytes, keysOnly: true } }))
        const answer = await this.#link.call(READ_TXN, { success })
        if (answer.responses.length !== chunk.length) throw strangeAnswer('a part of what was asked for')
        chunk.forEach((node, index) => {
          const kv = answer.responses[index]?.range?.kvs[0]
          if (kv?.createRevision === node.fence && kv.lease === session.id) there.add(node)
        })
        const [first] = chunk as readonly [EtcdNode]
        return await livesUntil(this.#link, session, credit, answer, first.bytes)
      }),
    )
    return { there, aliveUntil: Math.min(...ends) }
  }

  async move(from: EtcdSession, to: EtcdSession, _claim: Claim, own: EtcdNode): Promise<boolean> {
    return await this.#putUnder(to, own.bytes, own.fence, from.id)
  }

  async holderOf(_claim: Claim, node: LineNode): Promise<HolderNote | null> {
    return (node as EtcdLineNode).who
  }

  async view(resource: string): Promise<readonly ViewedNode[]> {
    const answer = await this.#link.call(RANGE, { ...this.#layout.lineOf(resource), ...BY_CREATION })
    const { revision } = headerOf(answer)
    const now = wallMs()
    return answer.kvs.map((kv) => viewedNode(kv, revision, now))
  }

  async *names(prefix: string): AsyncIterable<string> {
    const range = this.#layout.namesFrom(prefix)
    let { key } = range
    let last: string | null = null
    for (;;) {
      const answer = await this.#link.call(RANGE, { ...range, key, limit: PAGE, keysOnly: true })
      for (const kv of answer.kvs) {
        // Claims have leases. What has none is somebody's data that happens to begin alike.
        const name = kv.lease === 0n ? null : this.#layout.nameOf(kv.key)
        if (name === null || name === last || !name.startsWith(prefix)) continue
        last = name
        yield name
      }
      const end = answer.kvs.at(-1)
      if (!answer.more || end === undefined) return
      key = Buffer.concat([end.key, Buffer.of(0)])
    }
  }

  async removeViewed(_resource: string, node: ViewedNode): Promise<boolean> {
    const { bytes, createdAt } = node as ViewedNode & EtcdLineNode
    const answer = await this.#link.call(TXN, {
      compare: [created(bytes, createdAt)],
      success: [{ deleteRange: { key: bytes } }],
    })
    return answer.succeeded
  }

  async close(): Promise<void> {
    this.#watcher.close()
    this.#keepAlive.close()
    await this.#link.close()
  }

  /** Attaches a key to the lease of a session, where it stands, if it is still the one that is meant. */
  async #putUnder(to: EtcdSession, key: Buffer, createdAt: bigint, from: bigint): Promise<boolean> {
    const answer = await this.#change(to, {
      compare: [created(key, createdAt), leased(key, from)],
      success: [{ put: { key, lease: to.id, ignoreValue: true } }],
    })
    return answer.succeeded
  }

  /** A change that needs the lease of the session. */
  async #change(
    session: EtcdSession,
    txn: { compare: readonly Compare[]; success: readonly RequestOp[]; failure?: readonly RequestOp[] },
  ): Promise<TxnResponse> {
    if (session.isEnded) throw leaseGone(null)
    try {
      return await this.#link.call(TXN, txn)
    } catch (error) {
      if (isLeaseGone(error)) session.gone()
      throw error
    }
  }
}

function created(key: Buffer, createRevision: bigint): Compare {
  return { result: EQUAL, target: OF_CREATION, key, createRevision }
}

function leased(key: Buffer, lease: bigint): Compare {
  return { result: EQUAL, target: OF_LEASE, key, lease }
}

/** Whether the claim takes less than it did, so that those who wait have something to look at. */
function isLighter({ kv }: WatchEvent, node: EtcdLineNode): boolean {
  return kv === null || readRecord(kv.value).weight < node.weight
}
