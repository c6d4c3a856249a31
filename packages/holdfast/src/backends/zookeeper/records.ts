/** Records of idempotency in ZooKeeper. */

import type { Renewal } from '../../core/backend.js'
import { OutcomeUnknownError } from '../../core/errors.js'
import { checkKeys } from '../../core/options.js'
import { mayRenew } from '../../core/record-rule.js'
import type { ClaimRef, RecordStore, RecordTraits, RenewAsk } from '../../core/records.js'
import { isOutage } from '../sessions/entry.js'
import {
  type Cell,
  type CellChange,
  CellRecords,
  type Cells,
  type CellWrite,
} from '../shared/cell-records.js'
import { every, monotonicMs } from '../shared/clock.js'
import { checkBase } from '../shared/names.js'
import { checkedConnection, DEFAULT_BASE, RECIPE_KEYS, type ZookeeperOptions } from './backend.js'
import { translated } from './errors.js'
import { OwnClaims } from './own-claims.js'
import { type NodeVersion, RecordPaths } from './record-node.js'
import { type Attempted, RecordNodes } from './record-nodes.js'
import { RecordSessions } from './record-sessions.js'
import type { ZookeeperSession } from './session.js'
import type { Acl } from './wire/zookeeper.js'

/** What locks take, too, so that one URL serves both. */
export type ZookeeperRecordsOptions = ZookeeperOptions

/** Servers take requests of a megabyte, unless they are told otherwise; the paths and the head of the record need some of it. */
const BYTES_MAX = 1_000_000
const LEASE_MIN_MS = 50

/** How often claims are looked at that nobody renews any more. */
const UPKEEP_MS = 250
const ROUNDS_MAX = 50

export function zookeeperRecords(options: ZookeeperRecordsOptions): RecordStore {
  checkKeys(options, ['hosts', 'auth', 'tls', ...RECIPE_KEYS])
  const { connection, acl } = checkedConnection(options)
  const paths = new RecordPaths(checkBase(options.base ?? DEFAULT_BASE, 'base'))
  return new CellRecords(new ZookeeperRecords(new RecordSessions(connection), acl, paths))
}

export class ZookeeperRecords implements Cells<NodeVersion> {
  readonly name = 'zookeeper'
  readonly #sessions: RecordSessions
  readonly #nodes: RecordNodes
  readonly #claims: OwnClaims
  #traits: RecordTraits
  #stopUpkeep: (() => void) | null = null

  constructor(sessions: RecordSessions, acl: readonly Acl[], paths: RecordPaths) {
    this.#sessions = sessions
    this.#nodes = new RecordNodes(this.#sessions, paths, acl, BYTES_MAX)
    this.#claims = new OwnClaims(this.#sessions, this.#nodes)
    this.#traits = {
      keeps: 'durable',
      fencing: 'strict',
      bytesMax: BYTES_MAX,
      leaseMinMs: LEASE_MIN_MS,
      leaseMaxMs: LEASE_MIN_MS,
      retentionMaxMs: null,
    }
  }

  get traits(): RecordTraits {
    return this.#traits
  }

  /** The longest session that the servers grant decides how long a lease may be. */
  async open(): Promise<void> {
    const leaseMaxMs = await this.#sessions.using(async ({ ttlMaxMs }) => ttlMaxMs)
    this.#traits = { ...this.#traits, leaseMaxMs }
    this.#stopUpkeep ??= every(UPKEEP_MS, () => this.#claims.giveUpOverdue())
  }

  async read(key: string): Promise<Cell<NodeVersion>> {
    return await this.#sessions.using(({ client }) => translated(this.#nodes.read(client, key)))
  }

  known({ key, owner, fence }: ClaimRef): Cell<NodeVersion> | null {
    const own = this.#claims.get(owner)
    return own?.key === key && own.fence === fence ? own.cell : null
  }

  async write(key: string, version: NodeVersion | null, change: CellChange): Promise<CellWrite<NodeVersion>> {
    const { lease } = change
    if (typeof lease === 'number') return await this.#claim(key, version, change, lease)
    const own = this.#claims.get(change.record.owner)
    const isOwn = own !== null && own.key === key && !own.session.isEnded
    const write = async ({ client }: ZookeeperSession): Promise<Attempted> =>
      await translated(this.#nodes.write(client, key, version, change))
    const attempted = await (isOwn ? write(own.session) : this.#sessions.using(write))
    if (attempted.kind === 'beaten') return attempted
    if (isOwn && lease === 'keep') own.cell = attempted.cell
    else if (isOwn) this.#claims.drop(own)
    return writtenBy(attempted)
  }

  /** Makes the node of the owner in a session of this process, together with the record that names the owner. */
  async #claim(
    key: string,
    version: NodeVersion | null,
    change: CellChange,
    leaseMs: number,
  ): Promise<CellWrite<NodeVersion>> {
    const { owner } = change.record
    const askedAt = monotonicMs()
    const { own, isNew } = await this.#claims.enter(key, owner, leaseMs)
    const { session } = own
    // A session may have had to be opened first, and the lease begins after that.
    const laterMs = monotonicMs() - askedAt
    let attempted: Attempted
    own.requests += 1
    try {
      const writing = () => this.#nodes.write(session.client, key, version, change)
      attempted = (await session.confirmedBy(writing)).value
    } catch (error) {
      // It may have been carried out, or may be yet. Another try of the owner finds it; if there is none, it is given up.
      if (error instanceof OutcomeUnknownError) this.#sessions.doubt(session)
      else if (isNew) this.#claims.drop(own)
      throw error
    } finally {
      own.requests -= 1
      own.until = Math.max(own.until, monotonicMs() + leaseMs)
    }
    if (attempted.kind === 'beaten') {
      const { found } = attempted.cell
      const isThere =
        found?.record.owner === owner && found.record.state === 'in-progress' && found.leaseMs > 0
      if (isNew || !isThere) this.#claims.drop(own)
      else own.fence = found.record.fence
      return attempted
    }
    const { stat, cell } = attempted
    own.fence = attempted.fence
    own.cell = cell
    own.bornAt = stat.mzxid
    own.writtenAt = monotonicMs()
    return { ...writtenBy(attempted), leaseMs: leaseMs + laterMs }
  }

  async renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    const sentAt = monotonicMs()
    const sessions = new Set(asks.flatMap((ask) => this.#claims.kept(ask)?.session ?? []))
    const confirming = [...sessions].map(async (session) => {
      const kept = asks
        .flatMap((ask) => this.#claims.kept(ask) ?? [])
        .filter((own) => own.session === session)
      return [session, await this.#nodes.confirm(session, kept)] as const
    })
    const confirmed = new Map(await Promise.all(confirming))
    return await Promise.all(
      asks.map(async (ask) => {
        const own = this.#claims.kept(ask)
        if (own === null) return await this.#renewByWriting(ask)
        const answer = confirmed.get(own.session)
        if (!answer) return 'unknown'
        if (!answer.there.has(own)) {
          this.#claims.drop(own)
          return 'lost'
        }
        own.until = Math.max(own.until, monotonicMs() + ask.leaseMs)
        return answer.aliveUntil >= sentAt + ask.leaseMs ? 'held' : 'unknown'
      }),
    )
  }

  /**
   * The record is written anew, and the node of its owner made anew, if the lease shall be longer than the session, if the
   * retention would otherwise count from too long ago, or if the claim was made elsewhere.
   */
  async #renewByWriting(ask: RenewAsk): Promise<Renewal> {
    const own = this.#claims.get(ask.owner)
    if (own?.fence === ask.fence && own.session.isEnded) {
      this.#claims.drop(own)
      return 'lost'
    }
    try {
      let { found, version } = await this.read(ask.key)
      for (let rounds = 0; rounds < ROUNDS_MAX; rounds += 1) {
        if (found === null || !mayRenew(found, ask)) return 'lost'
        if (ask.leaseMs === 0) return 'held'
        const { leaseMs: lease, retentionMs } = ask
        const written = await this.write(ask.key, version, { record: found.record, lease, retentionMs })
        if (written.kind === 'written') return 'renewed'
        ;({ found, version } = written.cell)
      }
    } catch (error) {
      if (!isOutage(error)) throw error
    }
    return 'unknown'
  }

  async remove(key: string): Promise<boolean> {
    return await this.#sessions.using(({ client }) => translated(this.#nodes.remove(client, key)))
  }

  async purge(max: number): Promise<number> {
    return await this.#sessions.using(({ client }) => translated(this.#nodes.purge(client, max)))
  }

  async close(): Promise<void> {
    this.#stopUpkeep?.()
    this.#stopUpkeep = null
    this.#claims.close()
    await this.#sessions.close()
  }
}

function writtenBy({
  fence,
  cell,
}: Extract<Attempted, { kind: 'written' }>): Extract<CellWrite<NodeVersion>, { kind: 'written' }> {
  const createdAtMs = cell.found?.record.createdAtMs ?? null
  return { kind: 'written', fence, ...(createdAtMs === null ? {} : { createdAtMs }) }
}
