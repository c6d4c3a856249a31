/** The nodes of records as they are read and changed, each change in one step. */

import { isOutage } from '../sessions/entry.js'
import type { Cell, CellChange } from '../shared/cell-records.js'
import { isRecordKey, writeRecordText } from '../shared/record-text.js'
import { hasCode, translated, unlessMissing } from './errors.js'
import { makeFolder } from './folders.js'
import type { OwnClaim } from './own-claims.js'
import {
  claimName,
  type NodeVersion,
  type RecordNode,
  type RecordPaths,
  readRecordNode,
} from './record-node.js'
import type { RecordSessions } from './record-sessions.js'
import { type Data, isBeaten, isDone, removal, storedOf, whatWasMade } from './record-steps.js'
import { ServerTime } from './server-time.js'
import type { ZookeeperSession } from './session.js'
import {
  type Acl,
  type MultiOperation,
  type MultiResult,
  type Stat,
  type ZooKeeper,
  ZooKeeperError,
} from './wire/zookeeper.js'

export type Attempted =
  | {
      readonly kind: 'written'
      readonly fence: bigint
      readonly cell: Cell<NodeVersion>
      readonly stat: Stat
    }
  | { readonly kind: 'beaten'; readonly cell: Cell<NodeVersion> }

const NOTHING = Buffer.alloc(0)
const ROUNDS_MAX = 50
/** How many records are asked for at once by a purge. */
const PURGE_BATCH = 64

export class RecordNodes {
  readonly #sessions: RecordSessions
  readonly #paths: RecordPaths
  readonly #acl: readonly Acl[]
  readonly #bytesMax: number
  readonly #time: ServerTime
  /** Where the next purge begins. */
  #purgedUpTo = ''

  constructor(sessions: RecordSessions, paths: RecordPaths, acl: readonly Acl[], bytesMax: number) {
    this.#sessions = sessions
    this.#paths = paths
    this.#acl = acl
    this.#bytesMax = bytesMax
    this.#time = new ServerTime(() => this.#sessions.using(({ client }) => this.#date(client)))
  }

  /** What the leader knows by now, and not only the server that answers. */
  async read(client: ZooKeeper, key: string): Promise<Cell<NodeVersion>> {
    return await this.#cellOf(client, key, await this.#newest(client, this.#paths.recordOf(key)))
  }

  async #newest(client: ZooKeeper, path: string): Promise<Data | null> {
    const syncing = client.sync(path)
    const reading = unlessMissing(client.getData(path))
    reading.catch(() => {})
    await syncing
    return await reading
  }

  async #cellOf(client: ZooKeeper, key: string, read: Data | null): Promise<Cell<NodeVersion>> {
    if (read === null) return { found: null, version: null, nowMs: null }
    const node = readRecordNode(key, read.data, read.stat)
    const { found, version } = node
    if (await this.#isOver(node)) return { found: null, version, nowMs: await this.#time.nowMs() }
    const isLost = version.isOwned && this.#sessions.hasEnded && (await this.#isOfEndedSession(client, key))
    return { found: isLost ? { ...found, leaseMs: 0 } : found, version, nowMs: null }
  }

  async #isOver({ version: { isOwned, endsAtMs } }: RecordNode): Promise<boolean> {
    return !isOwned && endsAtMs !== null && (await this.#time.isPast(endsAtMs))
  }

  /** Nobody here believes in a claim of a session that is over, so it need not be waited for until the servers know it, too. */
  async #isOfEndedSession(client: ZooKeeper, key: string): Promise<boolean> {
    const stat = await client.exists(this.#paths.ownerOf(key))
    return stat !== null && this.#sessions.isEnded(stat.ephemeralOwner)
  }

  async #date(client: ZooKeeper): Promise<bigint> {
    for (;;) {
      const stat = await translated(unlessMissing(client.setData(this.#paths.root, NOTHING)))
      if (stat !== null) return stat.mtime
      await translated(makeFolder(client, `${this.#paths.root}/00`, this.#acl))
    }
  }

  async write(
    client: ZooKeeper,
    key: string,
    version: NodeVersion | null,
    change: CellChange,
  ): Promise<Attempted> {
    const stored = storedOf(version, change, client.sessionMs)
    const data = Buffer.from(writeRecordText(stored, this.#bytesMax))
    const operations = this.#operations(key, data, version, change)
    const done = await this.#commit(client, key, operations)
    if (!('stat' in done)) return { kind: 'beaten', cell: await this.#cellOf(client, key, done.instead) }
    const { stat } = done
    this.#time.heard(stat.mtime)
    const fence = stored.record.fence ?? stat.mzxid
    const node = readRecordNode(key, data, { ...stat, numChildren: 0 })
    const isOwned = change.lease === 'keep' ? (version?.isOwned ?? false) : change.lease !== 'end'
    const leaseMs = isOwned ? (stored.leaseMs ?? 0) : 0
    const found = { record: { ...node.found.record, fence }, leaseMs }
    return {
      kind: 'written',
      fence,
      stat,
      cell: { found, version: { ...node.version, isOwned }, nowMs: null },
    }
  }

  #operations(
    key: string,
    data: Buffer,
    before: NodeVersion | null,
    { record, lease }: CellChange,
  ): readonly MultiOperation[] {
    const acl = this.#acl
    const path = this.#paths.recordOf(key)
    const owner = this.#paths.ownerOf(key)
    const claim = record.state === 'in-progress' ? claimName(record.owner) : null
    const operations: MultiOperation[] = [
      before === null
        ? { type: 'create', path, data, acl }
        : { type: 'setData', path, data, version: before.version },
    ]
    if (before !== null && before.claim !== null && before.claim !== claim) {
      operations.push({ type: 'delete', path: `${path}/${before.claim}` })
    }
    if (claim !== null) {
      const node = `${path}/${claim}`
      const isThere = before?.claim === claim
      operations.push(
        isThere ? { type: 'check', path: node } : { type: 'create', path: node, data: NOTHING, acl },
      )
    }
    if (lease !== 'keep' && before?.isOwned) operations.push({ type: 'delete', path: owner })
    if (typeof lease === 'number') {
      operations.push({ type: 'create', path: owner, data: NOTHING, mode: 'ephemeral', acl })
    }
    return operations
  }

  /** Where the record was to be made, what stands there is asked for in the same round trip. */
  async #commit(
    client: ZooKeeper,
    key: string,
    operations: readonly MultiOperation[],
  ): Promise<{ readonly stat: Stat } | { readonly instead: Data | null }> {
    const path = this.#paths.recordOf(key)
    const makes = operations[0]?.type === 'create'
    for (;;) {
      const writing = client.multi(operations)
      const looking = makes ? unlessMissing(client.getData(path)) : null
      looking?.catch(() => {})
      let first: MultiResult | undefined
      try {
        ;[first] = await writing
      } catch (error) {
        if (makes && hasCode(error, 'NO_NODE') && (error as ZooKeeperError).index === 0) {
          await makeFolder(client, this.#paths.folderOf(key), this.#acl)
          continue
        }
        if (!isBeaten(error)) throw error
        // A refusal comes from the leader in its turn, and what is read behind it on the same connection is no older.
        return { instead: makes ? ((await looking) ?? null) : await unlessMissing(client.getData(path)) }
      }
      if (first?.type === 'setData') return { stat: first.stat }
      const seen = looking === null ? null : await whatWasMade(looking)
      // If it was changed before we looked, the rule decides what to make of that.
      return seen?.stat.version === 0 ? { stat: seen.stat } : { instead: seen }
    }
  }

  /** Asks the leader whether the session lives, and which of the owners are there; null where there is no answer. */
  async confirm(
    session: ZookeeperSession,
    claims: readonly OwnClaim[],
  ): Promise<{ readonly there: ReadonlySet<OwnClaim>; readonly aliveUntil: number } | null> {
    const { client } = session
    try {
      const { value: stats, aliveUntil } = await session.confirmedBy(async () => {
        const syncing = client.sync('/')
        const asking = Promise.all(claims.map(({ key }) => client.exists(this.#paths.ownerOf(key))))
        asking.catch(() => {})
        await syncing
        return await asking
      })
      const there = claims.filter(({ bornAt }, index) => stats[index]?.czxid === bornAt)
      return { there: new Set(there), aliveUntil }
    } catch (error) {
      if (session.isEnded) return { there: new Set(), aliveUntil: 0 }
      if (isOutage(error)) return null
      throw error
    }
  }

  /** Takes the node of the owner away, and leaves the record as one that was abandoned. */
  async disown({ key, owner, fence, session: { client } }: OwnClaim): Promise<void> {
    const path = this.#paths.recordOf(key)
    for (let rounds = 0; rounds < ROUNDS_MAX; rounds += 1) {
      const read = await this.#newest(client, path)
      if (read === null) return
      const { found, version } = readRecordNode(key, read.data, read.stat)
      const isOurs = found.record.owner === owner && (fence === null || found.record.fence === fence)
      if (!isOurs || !version.isOwned) return
      const operations: readonly MultiOperation[] = [
        { type: 'check', path, version: version.version },
        { type: 'delete', path: this.#paths.ownerOf(key) },
      ]
      if (await isDone(client, operations)) return
    }
  }

  /** Removes it with whatever is below it. */
  async remove(client: ZooKeeper, key: string): Promise<boolean> {
    const path = this.#paths.recordOf(key)
    for (let rounds = 0; rounds < ROUNDS_MAX; rounds += 1) {
      const read = await this.#newest(client, path)
      if (read === null) return false
      const names = (await unlessMissing(client.children(path)))?.names ?? []
      if (await isDone(client, removal(path, read.stat.version, names))) return true
    }
    return false
  }

  /** Looks at one record after the other, because nothing says which of them are over; it goes on where the last one stopped. */
  async purge(client: ZooKeeper, max: number): Promise<number> {
    const folders = (await unlessMissing(client.children(this.#paths.root)))?.names.toSorted() ?? []
    const next = folders.filter((name) => name > this.#purgedUpTo)
    let purged = 0
    for (const folder of [...next, ...folders.slice(0, folders.length - next.length)]) {
      const names = (await unlessMissing(client.children(`${this.#paths.root}/${folder}`)))?.names ?? []
      const keys = names.filter(isRecordKey)
      for (let start = 0; start < keys.length; start += PURGE_BATCH) {
        const batch = keys.slice(start, start + PURGE_BATCH)
        const over = (await Promise.all(batch.map((key) => this.#removalIfOver(client, key)))).flatMap(
          (removal) => removal ?? [],
        )
        const chosen = over.slice(0, max - purged)
        const gone = await Promise.all(chosen.map(({ operations }) => isDone(client, operations)))
        purged += gone.filter(Boolean).length
        if (purged >= max) return purged
      }
      this.#purgedUpTo = folder
    }
    return purged
  }

  async #removalIfOver(
    client: ZooKeeper,
    key: string,
  ): Promise<{ readonly operations: readonly MultiOperation[] } | null> {
    const path = this.#paths.recordOf(key)
    const read = await unlessMissing(client.getData(path))
    if (read === null) return null
    const node = readRecordNode(key, read.data, read.stat)
    if (!(await this.#isOver(node))) return null
    const { version, claim } = node.version
    return { operations: removal(path, version, claim === null ? [] : [claim]) }
  }
}
