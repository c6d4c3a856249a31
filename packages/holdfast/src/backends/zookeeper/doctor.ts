/** Looks for what breaks locks in how ZooKeeper is set up. Nothing is changed, and no lock is touched. */

import type { Finding } from '../../core/doctor.js'
import { isLoopback, type ProbeRuntime } from '../shared/doctor/findings.js'
import { measureLatency } from '../shared/doctor/timing.js'
import { parseZookeeperUrl } from './address.js'
import { DEFAULT_BASE, SESSION_MS } from './backend.js'
import { checkAccess, checkServers, checkSession, checkTransport, type ServerFacts } from './doctor/checks.js'
import { wordOf } from './doctor/words.js'
import { hasCode, translated, unlessMissing } from './errors.js'
import { openZookeeper, optionsOf } from './open.js'
import { ZookeeperSession } from './session.js'
import type { Acl, ZooKeeper, ZooKeeperOptions } from './wire/zookeeper.js'

/** Examines what a URL for `connect()` leads to. Rejects where nothing can be found out, because nobody answers. */
export async function examineZookeeperUrl(url: string, { clock }: ProbeRuntime): Promise<Finding[]> {
  // What `connect()` would refuse, an option that is misspelt for one, is refused here in the same words.
  const backend = await openZookeeper(url)
  await backend.close()
  const address = parseZookeeperUrl(url)
  const {
    hosts,
    auth = [],
    tls,
    base = DEFAULT_BASE,
    sessionMs: asked = SESSION_MS,
  } = await optionsOf(address)
  const options: ZooKeeperOptions = { hosts, auth, sessionMs: asked, ...(tls === undefined ? {} : { tls }) }
  const servers = await Promise.all(
    hosts.map(async (host): Promise<ServerFacts> => {
      const srvr = await wordOf('srvr', host, tls)
      return { host, srvr, conf: srvr === null ? null : await wordOf('conf', host, tls) }
    }),
  )
  const session = await ZookeeperSession.start(options, () => {})
  try {
    const { client, ttlMaxMs } = session
    const isRemote = !hosts.every(({ host }) => isLoopback(host))
    return [
      ...checkTransport(address),
      ...checkServers(servers),
      ...checkSession({ asked, granted: client.sessionMs, ttlMaxMs }),
      ...checkAccess(base, await aclOf(client, base), isRemote),
      ...(await measureLatency(() => translated(client.sync('/')), clock)),
    ]
  } finally {
    await session.end()
  }
}

async function aclOf(client: ZooKeeper, base: string): Promise<readonly Acl[] | 'refused' | null> {
  try {
    await unlessMissing(client.children(base))
    return (await unlessMissing(client.getAcl(base)))?.acl ?? null
  } catch (error) {
    if (hasCode(error, 'NO_AUTH')) return 'refused'
    throw error
  }
}
