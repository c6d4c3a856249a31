import type { ZookeeperServer } from 'holdfast-servers'

/** One number of what the server counts. A busy server may close the connection before it has said everything. */
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

/** The sessions that have a node in the folder of a lock, whichever folder that is. */
export async function sessionsIn(server: ZookeeperServer, lockName: string): Promise<readonly string[]> {
  const sessions: string[] = []
  let session = ''
  for (const line of (await server.word('dump')).split('\n')) {
    session = /^(0x[\da-f]+):/.exec(line)?.[1] ?? session
    if (line.startsWith('\t') && line.includes(`/${lockName}/`)) sessions.push(session)
  }
  return sessions
}
