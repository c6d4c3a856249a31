/**
 * The recipe `sequential`: each claim is an ephemeral node whose number is its place in line, and whoever waits watches
 * only those it waits for.
 */

import type { Claim, Guarantees, HolderNote } from '../../core/backend.js'
import { OutcomeUnknownError, UnsupportedError } from '../../core/errors.js'
import { isOutage } from '../sessions/entry.js'
import type { Confirmed, Joined, LineNode, LineNodes, OwnNode, Read, ViewedNode } from '../sessions/nodes.js'
import { writeRecord } from '../sessions/record.js'
import { monotonicMs } from '../shared/clock.js'
import {
  hasCode,
  mixedRecipes,
  outOfOrder,
  removedAgain,
  translated,
  unlessMissing,
  zookeeperError,
} from './errors.js'
import { makeFolder } from './folders.js'
import { guaranteesFor } from './guarantees.js'
import { type Layout, LOCK_NODE, mark, nodeName, type ZookeeperNode } from './layout.js'
import { ordered, readable, viewOf, whoIn, withLightened } from './reading.js'
import type { ZookeeperSession } from './session.js'
import type { Acl, WatchListener, ZooKeeper } from './wire/zookeeper.js'

export interface SequentialNode extends OwnNode {
  readonly path: string
}

export interface SequentialOptions {
  readonly layout: Layout
  readonly acl: readonly Acl[]
  readonly ttlMaxMs: number
  readonly start: (ended: () => void) => Promise<ZookeeperSession>
  /** The connection that is used for looking: any that is there, or a new one. */
  readonly looking: () => Promise<ZooKeeper>
  readonly close: () => Promise<void>
}

/** What was made is found gone again and again only if somebody removes it all the time. */
const TRIES = 5
const NOTHING = Buffer.alloc(0)

export class SequentialNodes implements LineNodes<ZookeeperSession, SequentialNode> {
  readonly name = 'zookeeper'
  readonly guarantees: Guarantees
  readonly #options: SequentialOptions
  /** Claims of which a node may have been made without anybody being told. */
  readonly #unsure = new WeakMap<ZookeeperSession, Set<string>>()
  /** Whether the folders of locks may be written to, as far as is known. */
  #mayWrite = true

  constructor(options: SequentialOptions) {
    this.guarantees = guaranteesFor(options.ttlMaxMs)
    this.#options = options
  }

  /** One session serves them all: it lives longer than the longest ttl. */
  sessionKey(): number {
    return 0
  }

  startSession(_key: number, ended: () => void): Promise<ZookeeperSession> {
    return this.#options.start(ended)
  }

  async join(session: ZookeeperSession, claim: Claim): Promise<Joined & { readonly own: SequentialNode }> {
    const path = this.#options.layout.pathOf(claim.resource)
    for (let tries = 1; tries <= TRIES; tries += 1) {
      const { value, aliveUntil } = await session.confirmedBy(async () => {
        const found = this.#isUnsure(session, claim) ? await this.#found(session, claim, path) : null
        return found ?? (await this.#made(session, claim, path))
      })
      const line = await this.#firstLine(session, claim, value)
      if (line !== null) return { own: value.own, line, aliveUntil }
    }
    throw removedAgain(claim.resource)
  }

  /** The line as it is when the node has just been made. Whatever goes wrong now, the node is there. */
  async #firstLine(
    session: ZookeeperSession,
    claim: Claim,
    { own, names }: MadeNode,
  ): Promise<readonly LineNode[] | null> {
    const { shape, weight, resource } = claim
    if (names === null) return [{ key: own.key, shape, weight }]
    try {
      if (names.includes(LOCK_NODE)) throw mixedRecipes(resource)
      return await translated(this.#line(session, claim, own, names))
    } catch (error) {
      this.#doubt(session, claim)
      if (!isOutage(error)) await translated(this.#removed(session.client, own.path))
      throw error
    }
  }

  #isUnsure(session: ZookeeperSession, { id }: Claim): boolean {
    return this.#unsure.get(session)?.has(id) ?? false
  }

  /** Another try of the claim has to look for what this one has made. */
  #doubt(session: ZookeeperSession, { id }: Claim): void {
    const claims = this.#unsure.get(session) ?? new Set()
    this.#unsure.set(session, claims.add(id))
  }

  /** The node of the claim that an earlier try made. One of another session is not ours: it is about to vanish. */
  async #found(session: ZookeeperSession, claim: Claim, path: string): Promise<MadeNode | null> {
    const names = await this.#children(session, path)
    for (const name of names) {
      if (!name.startsWith(mark(claim))) continue
      const stat = await session.client.exists(`${path}/${name}`)
      if (stat?.ephemeralOwner !== session.client.sessionId) continue
      return { own: { key: name, path: `${path}/${name}`, fence: stat.czxid }, names }
    }
    return null
  }

  async #made(session: ZookeeperSession, claim: Claim, path: string): Promise<MadeNode> {
    for (let tries = 1; tries <= TRIES; tries += 1) {
      const made = await unlessMissing(this.#make(session, claim, path))
      if (made !== null) return made
      await makeFolder(session.client, path, this.#options.acl)
    }
    throw removedAgain(claim.resource)
  }

  async #make(session: ZookeeperSession, claim: Claim, path: string): Promise<MadeNode> {
    const { client } = session
    try {
      return this.#mayWrite
        ? await this.#makeAndCount(client, claim, path)
        : await this.#makeAndList(client, claim, path)
    } catch (error) {
      if (this.#mayWrite && hasCode(error, 'NO_AUTH')) {
        this.#mayWrite = false
        return await this.#make(session, claim, path)
      }
      if (zookeeperError(error) instanceof OutcomeUnknownError) this.#doubt(session, claim)
      throw error
    }
  }

  /** Writing to the folder in the same step tells how many were in it before, and mostly there is nobody to ask about. */
  async #makeAndCount(client: ZooKeeper, claim: Claim, path: string): Promise<MadeNode> {
    const [written, made] = await client.multi([
      { type: 'setData', path, data: NOTHING },
      {
        type: 'create',
        path: `${path}/${nodeName(claim)}`,
        data: writeRecord(claim),
        mode: 'ephemeral-sequential',
        acl: this.#options.acl,
      },
    ])
    if (written?.type !== 'setData' || made?.type !== 'create') throw outOfOrder()
    const { mzxid, numChildren } = written.stat
    const own = { key: made.path.slice(path.length + 1), path: made.path, fence: mzxid }
    if (numChildren === 0) return { own, names: null }
    return { own, names: (await unlessMissing(client.children(path)))?.names ?? [] }
  }

  /** For folders that this client may not write to. The list is asked for at once, and so in the same round trip. */
  async #makeAndList(client: ZooKeeper, claim: Claim, path: string): Promise<MadeNode> {
    const { acl } = this.#options
    const mode = 'ephemeral-sequential'
    const making = client.create(`${path}/${nodeName(claim)}`, writeRecord(claim), { mode, acl })
    const listing = unlessMissing(client.children(path))
    listing.catch(() => {})
    const { path: made, stat } = await making
    const own = { key: made.slice(path.length + 1), path: made, fence: stat.czxid }
    return { own, names: (await listing)?.names ?? [] }
  }

  /** What the leader knows by now, and not only the server that answers. */
  async #children(session: ZookeeperSession, path: string): Promise<readonly string[]> {
    const syncing = session.client.sync(path)
    const listing = unlessMissing(session.client.children(path))
    listing.catch(() => {})
    await syncing
    return (await listing)?.names ?? []
  }

  /**
   * A session that was confirmed lately needs no confirmation: then the server that is connected may be behind, but what is
   * gone stays gone, and nobody comes to stand before us. So a hand-over takes one question, and that a local one.
   */
  async read(session: ZookeeperSession, claim: Claim, own: SequentialNode): Promise<Read | null> {
    const path = this.#options.layout.pathOf(claim.resource)
    const isFresh = session.aliveUntil - monotonicMs() > claim.ttlMs / 2
    const names = isFresh
      ? ((await translated(unlessMissing(session.client.children(path))))?.names ?? [])
      : (await session.confirmedBy(() => this.#children(session, path))).value
    const line = await translated(this.#line(session, claim, own, names))
    return line === null ? null : { line, aliveUntil: session.aliveUntil }
  }

  /** The nodes up to and including our own; null if ours is not among them. */
  async #line(
    session: ZookeeperSession,
    claim: Claim,
    own: SequentialNode,
    names: readonly string[],
  ): Promise<readonly ZookeeperNode[] | null> {
    const path = this.#options.layout.pathOf(claim.resource)
    const nodes = await ordered(session.client, path, names)
    const index = nodes.findIndex(({ key }) => key === own.key)
    if (index < 0) return null
    const line = nodes.slice(0, index + 1)
    return claim.weight === 1 ? await withLightened(session.client, path, line) : line
  }

  watch(
    session: ZookeeperSession,
    claim: Claim,
    nodes: readonly ZookeeperNode[],
    changed: (gone?: ZookeeperNode) => void,
  ): () => void {
    const path = this.#options.layout.pathOf(claim.resource)
    const { client } = session
    let isOver = false
    const ends = nodes.map((node) => {
      const watched = `${path}/${node.key}`
      const listener: WatchListener = ({ type }) => tell(type === 'deleted' ? node : undefined)
      client.getData(watched, listener).then(
        () => {
          // The server was asked to watch, and nobody wants to know any more.
          if (isOver) client.unwatch(watched, listener)
        },
        (error: unknown) => tell(hasCode(error, 'NO_NODE') ? node : undefined),
      )
      return () => client.unwatch(watched, listener)
    })
    const end = (): void => {
      isOver = true
      for (const each of ends) each()
    }
    const tell = (gone: ZookeeperNode | undefined): void => {
      if (isOver) return
      end()
      changed(gone)
    }
    return end
  }

  async lighten(session: ZookeeperSession, claim: Claim, own: SequentialNode): Promise<void> {
    await translated(unlessMissing(session.client.setData(own.path, writeRecord(claim))))
  }

  async remove(session: ZookeeperSession, claim: Claim, own: SequentialNode | null): Promise<boolean> {
    const path = this.#options.layout.pathOf(claim.resource)
    return await translated(
      own === null || this.#isUnsure(session, claim)
        ? this.#removeAll(session, claim, path)
        : this.#removed(session.client, own.path),
    )
  }

  async #removeAll(session: ZookeeperSession, claim: Claim, path: string): Promise<boolean> {
    const names = await this.#children(session, path)
    let wasThere = false
    for (const name of names) {
      if (!name.startsWith(mark(claim))) continue
      const node = `${path}/${name}`
      const stat = await session.client.exists(node)
      if (stat?.ephemeralOwner !== session.client.sessionId) continue
      wasThere = (await this.#removed(session.client, node)) || wasThere
    }
    this.#unsure.get(session)?.delete(claim.id)
    return wasThere
  }

  async #removed(client: ZooKeeper, path: string): Promise<boolean> {
    return (await unlessMissing(client.delete(path).then(() => true))) ?? false
  }

  async confirm(
    session: ZookeeperSession,
    own: readonly SequentialNode[],
  ): Promise<Confirmed<SequentialNode>> {
    const { client } = session
    const { value: stats, aliveUntil } = await session.confirmedBy(async () => {
      const syncing = client.sync('/')
      const asking = Promise.all(own.map(({ path }) => client.exists(path)))
      asking.catch(() => {})
      await syncing
      return await asking
    })
    const there = own.filter((_, index) => stats[index]?.ephemeralOwner === client.sessionId)
    return { there: new Set(there), aliveUntil }
  }

  async holderOf(claim: Claim, node: ZookeeperNode): Promise<HolderNote | null> {
    const client = await translated(this.#options.looking())
    const path = this.#options.layout.pathOf(claim.resource)
    const found = await translated(readable(client, `${path}/${node.key}`))
    return found === null ? null : whoIn(found.data)
  }

  async view(resource: string): Promise<readonly ViewedNode[]> {
    const client = await translated(this.#options.looking())
    return await translated(viewOf(client, this.#options.layout.pathOf(resource)))
  }

  async *names(prefix: string): AsyncIterable<string> {
    const { layout, looking } = this.#options
    if (layout.nameOf === null) {
      throw new UnsupportedError('With `exactPath` any path can be a lock, so they cannot be listed.', {
        backend: this.name,
      })
    }
    const client = await translated(looking())
    const base = `/${layout.base.join('/')}`
    const found = await translated(unlessMissing(client.children(base)))
    for (const part of found?.names ?? []) {
      const name = layout.nameOf(part)
      if (name?.startsWith(prefix)) yield name
    }
  }

  async removeViewed(resource: string, node: ViewedNode): Promise<boolean> {
    const client = await translated(this.#options.looking())
    return await translated(this.#removed(client, `${this.#options.layout.pathOf(resource)}/${node.key}`))
  }

  close(): Promise<void> {
    return this.#options.close()
  }
}

interface MadeNode {
  readonly own: SequentialNode
  /** Everybody who is there; null: nobody else is. */
  readonly names: readonly string[] | null
}
