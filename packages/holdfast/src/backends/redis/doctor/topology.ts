/** What to make of how servers are reached, and of how they belong together. */

import type { Finding } from '../../../core/doctor.js'
import { finding, isLoopback, ok } from '../../shared/doctor/findings.js'
import type { RedisAddress } from '../address.js'
import type { RedisLink } from '../link.js'
import { ask, type Facts, fieldsIn, numberIn, type ProbeRuntime } from './probe.js'

const SLOTS = 16_384

export function checkTransport({ tls, hosts, password }: RedisAddress): Finding[] {
  if (tls) return [ok('transport', 'TLS')]
  if (hosts.every(({ host }) => isLoopback(host))) return [ok('transport', 'TCP within this machine')]
  if (password === undefined) {
    const advice = 'Whoever reaches the server can break every lock. Use a password and TLS, `rediss://`.'
    return [finding('note', 'transport', 'TCP to another machine, without a password', advice)]
  }
  const advice = 'Whoever can listen on the way learns the password. Use TLS: `rediss://`.'
  return [finding('warning', 'transport', 'TCP to another machine, with the password in the clear', advice)]
}

/** Whether every name has a node that serves it. */
export async function checkCluster(link: RedisLink, runtime: ProbeRuntime): Promise<Finding[]> {
  if (!link.isCluster) return []
  const answer = await ask(runtime, () => link.send('', ['CLUSTER', 'INFO']))
  if ('refusal' in answer) {
    const found = 'not allowed to look: CLUSTER INFO is refused'
    return [finding('note', 'cluster', found, 'Run this once as a user who may.')]
  }
  const fields = fieldsIn(answer.value)
  const served = numberIn(fields, 'cluster_slots_ok') ?? 0
  const state = fields.get('cluster_state') ?? 'unknown'
  if (state === 'ok' && served === SLOTS) {
    return [ok('cluster', `whole: ${numberIn(fields, 'cluster_size') ?? 'some'} masters serve all slots`)]
  }
  const found = `state ${state}, ${served} of ${SLOTS} slots are served: some names cannot be locked`
  const advice = 'See `CLUSTER NODES`; give every slot a master, and every master a replica.'
  return [finding(served === SLOTS ? 'warning' : 'danger', 'cluster', found, advice)]
}

/** The masters of a redlock must have nothing in common, or a majority of them is none. */
export function checkIndependence(servers: readonly Facts[]): Finding[] {
  if (servers.length < 2) return []
  const ids = servers.flatMap(({ info }) => info.get('run_id') ?? [])
  const twice = ids.length - new Set(ids).size
  if (twice > 0) {
    const found = `${servers.length} addresses lead to only ${servers.length - twice} servers`
    return [
      finding(
        'danger',
        'masters',
        found,
        'A majority must be one of different servers. Correct the addresses.',
      ),
    ]
  }
  const found = `${servers.length} servers`
  if (servers.length % 2 === 1) return [ok('masters', found)]
  const advice = 'An even number survives no more failures than one server less.'
  return [finding('note', 'masters', found, advice)]
}
