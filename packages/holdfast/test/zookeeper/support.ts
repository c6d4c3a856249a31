import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { missingPrograms, missingReason, type ZookeeperServer } from 'holdfast-servers'
import { until } from '../../../../test/support/wait.js'
import { LineBackend } from '../../src/backends/sessions/line-backend.js'
import { partsBelow } from '../../src/backends/zookeeper/layout.js'
import { openZookeeper } from '../../src/backends/zookeeper/open.js'
import { SequentialNodes } from '../../src/backends/zookeeper/sequential.js'
import { ZookeeperSession } from '../../src/backends/zookeeper/session.js'
import { OPEN_ACL, ZooKeeper, ZooKeeperError } from '../../src/backends/zookeeper/wire/zookeeper.js'
import { createLocks, type Locks } from '../../src/client/client.js'
import type { ClientOptions } from '../../src/core/options.js'

export const TIMEOUT_MS = 180_000

const missing = missingPrograms(['java', 'zookeeper.jar'])
/** Whether there is no ZooKeeper here, so that nothing can be said about it. */
export const isMissing = missing.length > 0
export const whyMissing = isMissing ? missingReason(missing) : null

export function freshBase(): string {
  return `/t${randomBytes(5).toString('hex')}`
}

export async function locksAt(url: string, options?: ClientOptions): Promise<Locks> {
  return await createLocks(await openZookeeper(url), options)
}

export async function clientOf(port: number, sessionMs = 10_000): Promise<ZooKeeper> {
  return await ZooKeeper.connect({ hosts: [{ host: '127.0.0.1', port }], sessionMs })
}

/**
 * Ends a session at the servers: whoever has its key can go on with it, and so can end it. Its own client goes on with it,
 * too, and can take it back before the thief has closed it; so it is stolen until the servers do not know it any more.
 */
export async function endAtServers(port: number, { sessionKey }: ZooKeeper): Promise<void> {
  const connection = { hosts: [{ host: '127.0.0.1', port }], sessionMs: 30_000 }
  for (;;) {
    try {
      const thief = await ZooKeeper.connect({ ...connection, session: sessionKey })
      await thief.close()
    } catch (error) {
      if (error instanceof ZooKeeperError && error.code === 'SESSION_EXPIRED') return
    }
    await sleep(2)
  }
}

/** The same, until its own client knows of it. */
export async function endSession(port: number, client: ZooKeeper): Promise<void> {
  await endAtServers(port, client)
  await until('the client knows that its session is over', () => client.state === 'expired', { everyMs: 2 })
}

/** Locks whose sessions a test can end behind their back. */
export async function mortalLocks(port: number, base: string, sessionMs = 4_000): Promise<MortalLocks> {
  const hosts = [{ host: '127.0.0.1', port }]
  const sessions: ZookeeperSession[] = []
  const looking = await ZooKeeper.connect({ hosts, sessionMs })
  const nodes = new SequentialNodes({
    layout: partsBelow(base.slice(1).split('/')),
    acl: OPEN_ACL,
    ttlMaxMs: Math.floor((sessionMs * 2) / 3),
    start: async (ended) => {
      const session = await ZookeeperSession.start({ hosts, sessionMs }, ended)
      sessions.push(session)
      return session
    },
    looking: async () => looking,
    close: () => looking.close(),
  })
  return {
    locks: await createLocks(new LineBackend(nodes)),
    sessions,
    endSession: () => endSession(port, (sessions.at(-1) as ZookeeperSession).client),
  }
}

export interface MortalLocks {
  readonly locks: Locks
  readonly sessions: readonly ZookeeperSession[]
  readonly endSession: () => Promise<void>
}

/** One number of what the server counts. A busy machine may take its time. */
export async function counted(server: ZookeeperServer, name: string): Promise<number> {
  for (let tries = 1; ; tries += 1) {
    try {
      const found = new RegExp(`^zk_${name}\\t(\\S+)$`, 'm').exec(await server.word('mntr'))?.[1]
      if (found !== undefined) return Number(found)
    } catch (error) {
      if (tries === 10) throw error
    }
    if (tries === 10) throw new Error(`The server does not count ${name}.`)
  }
}
