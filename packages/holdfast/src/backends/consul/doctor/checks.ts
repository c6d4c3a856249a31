/** What is to be said of what was found. */

import type { Finding } from '../../../core/doctor.js'
import { quote } from '../../../core/errors.js'
import { count, finding, isLoopback, ok } from '../../shared/doctor/findings.js'
import type { ConsulAddress } from '../address.js'
import type { ConsulRecipeOptions } from '../backend.js'
import type { AgentFacts, LeaderFacts, Rights } from './facts.js'

/** What one client uses at most: its requests, and those that wait for a change. */
const CONNECTIONS = 112
/** Consul's own default of `session_ttl_min`, which is also what an agent shows as no time at all. */
const TTL_MIN_MS = 10_000
const LOCK_DELAY_MS = 15_000

export function checkTransport({ hosts, isSecure, options }: ConsulAddress): Finding[] {
  const findings: Finding[] = []
  if (options.has('token')) {
    const advice =
      'A URL shows in lists of processes and in logs. Put the token into a file, and give `tokenFile`.'
    findings.push(finding('note', 'token', 'the token stands in the URL', advice))
  }
  if (isSecure) return [...findings, ok('transport', 'TLS, and the certificate is checked')]
  if (hosts.every(({ host }) => isLoopback(host)))
    return [...findings, ok('transport', 'TCP within this machine')]
  const hasToken = options.has('token') || options.has('tokenFile')
  const advice = hasToken
    ? 'Whoever can listen on the way learns the token. Use `consuls:`, or an agent on this machine.'
    : 'Whoever can listen or talk on the way can break every lock. Use `consuls:`, or an agent on this machine.'
  return [
    ...findings,
    finding(hasToken ? 'warning' : 'note', 'transport', 'TCP to another machine, not encrypted', advice),
  ]
}

export function checkLeader({ address, servers }: LeaderFacts): Finding[] {
  if (address === null) {
    const advice =
      'Nothing can be locked. See `consul operator raft list-peers`, and whether this agent reaches the servers.'
    return [finding('danger', 'leader', 'there is no leader', advice)]
  }
  const leader = ok('leader', 'there is one, and it is reached')
  if (servers >= 3)
    return [leader, ok('servers', `${count(servers, 'server')}, of which one may fail or more`)]
  const advice =
    'Locks stand still while it is away, and are gone if its disk is. Run three servers, or five.'
  return [leader, finding('warning', 'servers', count(servers, 'server'), advice)]
}

export function checkAgent(agent: AgentFacts | null, { hosts }: ConsulAddress): Finding[] {
  if (agent === null) {
    const advice =
      'With the right `agent:read` the doctor could say more: version, `session_ttl_min` and limits.'
    return [finding('note', 'agent', 'the token may not read how the agent is set up', advice)]
  }
  const { version, isServer, connectionsMax } = agent
  const findings = [ok('version', quote(version).slice(1, -1))]
  const what = isServer ? 'a server' : 'a client'
  if (hosts.length > 1) findings.push(ok('agent', `${what}, and others besides`))
  else if (!isServer) findings.push(ok('agent', `${what}, which finds the servers by itself`))
  else {
    const advice =
      'When it is away, so are the locks, though the other servers go on. Use an agent on this machine, or name several.'
    findings.push(finding('note', 'agent', `${what}, and the only one that is named`, advice))
  }
  if (connectionsMax === null) return findings
  const found = `${connectionsMax} from one address (\`http_max_conns_per_client\`)`
  if (connectionsMax === 0 || connectionsMax >= 2 * CONNECTIONS)
    return [...findings, ok('connections', found)]
  const advice =
    `One client uses up to ${CONNECTIONS}, most of them while callers wait for as many names. Raise it where several ` +
    'processes share an address.'
  return [...findings, finding('note', 'connections', found, advice)]
}

export function checkRights(rights: Rights, hasToken: boolean): Finding[] {
  switch (rights.kind) {
    case 'unknown':
      return []
    case 'off': {
      const advice =
        'Everybody who reaches an agent can break every lock. Switch them on, with `default_policy = "deny"`.'
      return [finding('note', 'rights', 'ACLs are off', advice)]
    }
    case 'on': {
      if (rights.missing.length === 0) return [ok('rights', 'keys and sessions may be read and written')]
      const advice =
        'Give the token `key_prefix "…" { policy = "write" }` for the prefix of the locks and `session_prefix "" { policy = ' +
        `"write" }\`${hasToken ? '' : ', and give it with `tokenFile`'}.`
      return [finding('danger', 'rights', `${rights.missing.join(', ')} missing`, advice)]
    }
  }
}

export function checkSettings(options: ConsulRecipeOptions, agent: AgentFacts | null): Finding[] {
  return [
    ...checkTtl(options.ttlMinMs ?? TTL_MIN_MS, agent),
    ...checkDelay(options.lockDelayMs ?? LOCK_DELAY_MS),
  ]
}

function checkTtl(ttlMinMs: number, agent: AgentFacts | null): Finding[] {
  if (agent === null || agent.sessionTtlMinMs === null || !agent.isServer) return []
  const serverMs = agent.sessionTtlMinMs === 0 ? TTL_MIN_MS : agent.sessionTtlMinMs
  if (ttlMinMs < serverMs) {
    const advice = `A shorter \`ttlMs\` is refused when a lock is taken. Set \`ttlMinMs=${serverMs}\`, or lower \`session_ttl_min\`.`
    return [
      finding(
        'warning',
        'ttl',
        `\`ttlMinMs\` is ${ttlMinMs} ms, the servers take ${serverMs} ms or more`,
        advice,
      ),
    ]
  }
  return [ok('ttl', `sessions of ${ttlMinMs} ms or more, and the servers take ${serverMs} ms`)]
}

function checkDelay(lockDelayMs: number): Finding[] {
  if (lockDelayMs > 0) return [ok('lock delay', `${lockDelayMs} ms after a holder was lost`)]
  const advice =
    'After a holder was lost, the next one gets in at once, while requests of the former may still be on their way. Let ' +
    'the resource check the fence, or set `lockDelayMs`.'
  return [finding('note', 'lock delay', 'none', advice)]
}

export function checkReads(): Finding[] {
  return [
    ok('reads', 'every one is answered by the leader that is sure of being one; stale reads are not used'),
    ok('clock', 'no clock is compared: the leader counts the time of a session by itself'),
  ]
}
