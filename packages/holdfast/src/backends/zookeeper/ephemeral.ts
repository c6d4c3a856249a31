/**
 * The recipe `ephemeral`, which the literature begins with: one node per lock, made by whoever gets there first and
 * watched by everybody else. It is simple and unfair, and each release wakes all who wait. It is here to be compared with
 * `sequential`.
 *
 * Each taking also writes to the folder of the lock, in the same step, and so raises the version of the folder. The holder
 * gives up the lock only at the version that it made: if somebody else has it by now, that step fails as a whole.
 */

import type { Claim, Guarantees } from '../../core/backend.js'
import { OutcomeUnknownError } from '../../core/errors.js'
import type { ConnectionView, Held, Keeping, LockSession } from '../sessions/connection-backend.js'
import { readRecord, writeRecord } from '../sessions/record.js'
import { SessionPool } from '../sessions/session-pool.js'
import { jitteredPause, monotonicMs, wallMs } from '../shared/clock.js'
import { NOBODY_KNOWN } from '../shared/who.js'
import { hasCode, mixedRecipes, outOfOrder, translated, unlessMissing } from './errors.js'
import { makeFolder } from './folders.js'
import { guaranteesFor } from './guarantees.js'
import { LOCK_NODE, mark, readNode } from './layout.js'
import type { SequentialOptions } from './sequential.js'
import type { ZookeeperSession } from './session.js'
import type { ZooKeeper } from './wire/zookeeper.js'

/** The session as one lock sees it, with the version of the folder that is the lock's own. */
interface EphemeralSession extends LockSession {
  readonly session: ZookeeperSession
  readonly folder: string
  readonly version: number
}

type EphemeralHeld = Held<EphemeralSession>

/** Somebody else was faster so often that the next hint is worth more than another try. */
const TRIES = 5
const TIDY_MS = 500
const NOTHING = Buffer.alloc(0)

export class EphemeralNode implements Keeping<EphemeralSession> {
  readonly name = 'zookeeper'
  readonly guarantees: Guarantees
  readonly #options: SequentialOptions
  readonly #pool: SessionPool<ZookeeperSession>
  readonly #listeners = new Map<ZookeeperSession, Set<() => void>>()
  readonly #watchers = new Map<string, () => void>()
  #hint: (resource: string) => void = () => {}

  constructor(options: SequentialOptions) {
    this.#options = options
    const base = guaranteesFor(options.ttlMaxMs)
    this.guarantees = { ...base, fair: false, weights: 'none', shows: 'connections', limitMax: 1 }
    this.#pool = new SessionPool(
      this.name,
      async (_key, ended) => {
        const session: ZookeeperSession = await options.start(() => ended(session))
        return session
      },
      (session) => this.#ended(session),
    )
  }

  async open(hint: (resource: string) => void): Promise<void> {
    this.#hint = hint
  }

  async take(claim: Claim): Promise<EphemeralHeld | null> {
    const session = await this.#pool.enter(0)
    let held: EphemeralHeld | null = null
    try {
      held = await translated(this.#takeIn(session, claim))
      return held
    } catch (error) {
      if (error instanceof OutcomeUnknownError) {
        this.#pool.doubt(session)
        void this.#tidy(session, claim)
      }
      throw error
    } finally {
      if (held === null) this.#pool.leave(session)
    }
  }

  async #takeIn(session: ZookeeperSession, claim: Claim): Promise<EphemeralHeld | null> {
    const { client } = session
    const folder = this.#options.layout.pathOf(claim.resource)
    for (let tries = 1; tries <= TRIES; tries += 1) {
      try {
        return await this.#make(session, claim, folder)
      } catch (error) {
        if (hasCode(error, 'NO_NODE')) await makeFolder(client, folder, this.#options.acl)
        else if (!hasCode(error, 'NODE_EXISTS')) throw error
        else if (await client.exists(`${folder}/${LOCK_NODE}`, this.#watcherOf(claim.resource))) return null
      }
    }
    return null
  }

  /** The same for every attempt at one name, so that a session which asks again and again has one watch of it. */
  #watcherOf(resource: string): () => void {
    const known = this.#watchers.get(resource)
    if (known !== undefined) return known
    const watcher = (): void => {
      this.#watchers.delete(resource)
      this.#hint(resource)
    }
    this.#watchers.set(resource, watcher)
    return watcher
  }

  async #make(session: ZookeeperSession, claim: Claim, folder: string): Promise<EphemeralHeld> {
    const { client } = session
    const sentAt = monotonicMs()
    const making = client.multi([
      { type: 'setData', path: folder, data: NOTHING },
      {
        type: 'create',
        path: `${folder}/${LOCK_NODE}`,
        data: Buffer.concat([writeRecord(claim), Buffer.from(`\n${mark(claim)}`)]),
        mode: 'ephemeral',
        acl: this.#options.acl,
      },
    ])
    const [written] = await making
    if (written?.type !== 'setData') throw outOfOrder()
    const { mzxid, version, numChildren } = written.stat
    const held = this.#held({ session, folder, version, ...this.#lifeOf(session) }, mzxid, sentAt)
    // A line of the other recipe would hold the same name without being seen.
    const names = numChildren === 0 ? [] : (await client.children(folder)).names
    if (!names.some((name) => readNode(name) !== null)) return held
    await this.#remove(held)
    throw mixedRecipes(claim.resource)
  }

  #held(session: EphemeralSession, fence: bigint, sentAt: number): EphemeralHeld {
    return { fence, session, connection: session.session.client.sessionId.toString(16), sentAt }
  }

  #lifeOf(session: ZookeeperSession): LockSession {
    return {
      get isEnded() {
        return session.isEnded
      },
      onEnd: (listener) => {
        if (session.isEnded) {
          listener()
          return () => {}
        }
        const listeners = this.#listeners.get(session) ?? new Set()
        this.#listeners.set(session, listeners.add(listener))
        return () => listeners.delete(listener)
      },
    }
  }

  #ended(session: ZookeeperSession): void {
    const listeners = this.#listeners.get(session) ?? []
    this.#listeners.delete(session)
    for (const listener of listeners) listener()
  }

  /** Removes what a taking has made of which nobody was told, now or later, until its session is over. */
  async #tidy(session: ZookeeperSession, claim: Claim): Promise<void> {
    const folder = this.#options.layout.pathOf(claim.resource)
    const { client } = session
    while (!session.isEnded) {
      try {
        const parent = await unlessMissing(client.exists(folder))
        const found = await unlessMissing(client.getData(`${folder}/${LOCK_NODE}`))
        const isOwn = found?.stat.ephemeralOwner === client.sessionId && hasMark(found.data, claim)
        if (isOwn && parent !== null) await removedAt(client, folder, parent.version)
      } catch {
        // It is tried again, as long as there is a session in which it could be there.
      }
      await jitteredPause(TIDY_MS)
    }
  }

  async giveUp(held: EphemeralHeld): Promise<boolean> {
    const { session } = held.session
    if (session.isEnded) return false
    const wasThere = await translated(this.#remove(held))
    this.#pool.leave(session)
    return wasThere
  }

  /** Whether it was ours to the last. Others may write to the folder, too; only a lock that is not ours any more counts. */
  async #remove({ fence, session: { session, folder, version } }: EphemeralHeld): Promise<boolean> {
    const { client } = session
    let expected = version
    for (;;) {
      const outcome = await removedAt(client, folder, expected)
      if (outcome !== 'changed') return outcome === 'removed'
      const parent = await unlessMissing(client.exists(folder))
      const found = await unlessMissing(client.exists(`${folder}/${LOCK_NODE}`))
      if (!parent || found?.czxid !== fence) return false
      expected = parent.version
    }
  }

  /** Asks the leader: one sync for each session, and each node behind it. */
  async alive(held: readonly EphemeralHeld[]): Promise<ReadonlySet<EphemeralHeld>> {
    const sessions = new Set(held.map(({ session }) => session.session))
    const there = await Promise.all([...sessions].map((session) => translated(this.#aliveIn(session, held))))
    return new Set(there.flat())
  }

  async #aliveIn(
    session: ZookeeperSession,
    all: readonly EphemeralHeld[],
  ): Promise<readonly EphemeralHeld[]> {
    if (session.isEnded) return []
    const { client } = session
    const held = all.filter((each) => each.session.session === session)
    const syncing = client.sync('/')
    const asking = Promise.all(held.map((each) => client.exists(`${each.session.folder}/${LOCK_NODE}`)))
    asking.catch(() => {})
    await syncing
    const stats = await asking
    return held.filter((each, index) => stats[index]?.czxid === each.fence)
  }

  async holder(resource: string): Promise<ConnectionView | null> {
    return await translated(this.#holder(resource))
  }

  async #holder(resource: string): Promise<ConnectionView | null> {
    const client = await this.#options.looking()
    const path = `${this.#options.layout.pathOf(resource)}/${LOCK_NODE}`
    await client.sync(path)
    const found = await unlessMissing(client.getData(path))
    if (found === null) return null
    const { owner, note } = readRecord(found.data).who ?? NOBODY_KNOWN
    const ageMs = Math.max(0, wallMs() - Number(found.stat.ctime))
    return { connection: found.stat.ephemeralOwner.toString(16), ...owner, note, ageMs }
  }

  /** Removes the node, and leaves the session with whatever else it keeps. */
  async end(connection: string, resource: string): Promise<boolean> {
    const folder = this.#options.layout.pathOf(resource)
    const ending = async (): Promise<boolean> => {
      const client = await this.#options.looking()
      const parent = await unlessMissing(client.exists(folder))
      const found = await unlessMissing(client.getData(`${folder}/${LOCK_NODE}`))
      if (parent === null || found?.stat.ephemeralOwner.toString(16) !== connection) return false
      return (await removedAt(client, folder, parent.version)) === 'removed'
    }
    return await translated(ending())
  }

  async close(): Promise<void> {
    await this.#pool.close()
    await this.#options.close()
  }
}

/** Removes the lock if the folder is still at this version, and so nobody has taken it since. */
async function removedAt(
  client: ZooKeeper,
  folder: string,
  version: number,
): Promise<'removed' | 'gone' | 'changed'> {
  try {
    await client.multi([
      { type: 'check', path: folder, version },
      { type: 'delete', path: `${folder}/${LOCK_NODE}` },
    ])
    return 'removed'
  } catch (error) {
    if (hasCode(error, 'NO_NODE')) return 'gone'
    if (hasCode(error, 'BAD_VERSION')) return 'changed'
    throw error
  }
}

/** The mark stands behind what is for people, in a line of its own. */
function hasMark(data: Buffer, claim: Claim): boolean {
  return data.toString('utf8').endsWith(`\n${mark(claim)}`)
}
