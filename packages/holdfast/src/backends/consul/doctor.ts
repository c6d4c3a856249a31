/** Looks for what breaks locks in how Consul is set up. Nothing is changed, and no lock is touched. */

import type { Finding } from '../../core/doctor.js'
import type { ProbeRuntime } from '../shared/doctor/findings.js'
import { measureLatency } from '../shared/doctor/timing.js'
import { accessOf, type ConsulAddress, parseConsulUrl, recipeOptionsOf } from './address.js'
import { ConsulClient } from './client.js'
import {
  checkAgent,
  checkLeader,
  checkReads,
  checkRights,
  checkSettings,
  checkTransport,
} from './doctor/checks.js'
import { agentFacts, leaderFacts, rightsOf } from './doctor/facts.js'
import { Keys } from './keys.js'
import { ConsulStore } from './kv.js'
import { openConsul } from './open.js'

/** Examines what a URL for `connect()` leads to. Rejects where nothing can be found out, because nobody answers. */
export async function examineConsulUrl(url: string, { clock }: ProbeRuntime): Promise<Finding[]> {
  // What `connect()` would refuse, an option that is misspelt for one, is refused here in the same words.
  await (await openConsul(url)).close()
  const address = parseConsulUrl(url)
  const usage = recipeOptionsOf(address)
  const client = new ConsulClient(await accessOf(address))
  try {
    const leader = await leaderFacts(client)
    const agent = await agentFacts(client)
    const { base } = new Keys(usage.prefix ?? '', usage.exactPath ?? false)
    const rights = await rightsOf(client, base, agent?.node ?? null)
    const mayRead = leader.address !== null && !(rights.kind === 'on' && rights.missing.includes('key:read'))
    // Nobody has this key, and only whether it is there is asked.
    const ping = (): Promise<unknown> => new ConsulStore(client).get(`${base}holdfast-doctor/.lock`)
    return [
      ...checkTransport(address),
      ...checkLeader(leader),
      ...checkAgent(agent, address),
      ...checkRights(rights, hasToken(address)),
      ...checkSettings(usage, agent),
      ...checkReads(),
      ...(mayRead ? await measureLatency(ping, clock) : []),
    ]
  } finally {
    client.close()
  }
}

function hasToken({ options }: ConsulAddress): boolean {
  return options.has('token') || options.has('tokenFile')
}
