/** What to make of what the servers tell about themselves. Pure: facts in, findings out. */

import type { HostAndPort } from '../../../core/address.js'
import type { Finding } from '../../../core/doctor.js'
import { quote } from '../../../core/errors.js'
import { count, finding, isLoopback, ok } from '../../shared/doctor/findings.js'
import type { ZookeeperAddress } from '../address.js'
import type { Acl } from '../wire/zookeeper.js'

export interface ServerFacts {
  readonly host: HostAndPort
  /** What it said to `srvr`; null: it did not answer. */
  readonly srvr: string | null
  /** What it said to `conf`, which many servers do not allow. */
  readonly conf: string | null
}

export interface SessionFacts {
  readonly asked: number
  readonly granted: number
  readonly ttlMaxMs: number
}

export function checkTransport({ tls, hosts, digest }: ZookeeperAddress): Finding[] {
  if (tls) return [ok('transport', 'TLS')]
  if (hosts.every(({ host }) => isLoopback(host))) return [ok('transport', 'TCP within this machine')]
  if (digest === null) {
    const advice =
      'Whoever reaches the servers can break every lock. Use `acl=creator` with a password, and TLS.'
    return [finding('note', 'transport', 'TCP to another machine, without a password', advice)]
  }
  const advice = 'Whoever can listen on the way learns the password. Use TLS: `zookeepers://`.'
  return [finding('warning', 'transport', 'TCP to another machine, with the password in the clear', advice)]
}

export function checkSession({ asked, granted, ttlMaxMs }: SessionFacts): Finding[] {
  const found = `${granted} ms, so a ttl is at most ${ttlMaxMs} ms`
  if (granted === asked) return [ok('session', found)]
  const advice =
    'The servers have limits, `minSessionTimeout` and `maxSessionTimeout`. Ask for what they give, or raise them.'
  return [finding('note', 'session', `${found}; ${asked} ms were asked for`, advice)]
}

/** Each server that is named, and all of them together. */
export function checkServers(servers: readonly ServerFacts[]): Finding[] {
  return [...servers.flatMap(checkServer), ...checkEnsemble(servers)]
}

function checkServer({ host, srvr, conf }: ServerFacts): Finding[] {
  const name = quote(`${host.host}:${host.port}`)
  if (srvr === null) {
    const advice = 'Start it, or take it out of the URL. Until then clients that try it first take longer.'
    return [finding('warning', 'server', `${name} does not answer`, advice)]
  }
  if (!srvr.includes('Zookeeper version')) {
    const advice = 'It runs but has no leader, or does not allow `srvr`. See its log.'
    return [finding('warning', 'server', `${name} does not say that it serves anybody`, advice)]
  }
  const version = /version: (\d+\.\d+\.\d+)/.exec(srvr)?.[1] ?? 'unknown'
  const what = `ZooKeeper ${version}, ${modeOf(srvr) ?? 'of unknown mode'}, at ${name}`
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major < 3 || (major === 3 && minor < 5)) {
    const advice =
      'Before 3.5 there are no containers, so the folder of each name that was ever used stays. Upgrade.'
    return [finding('warning', 'server', what, advice), ...checkTick(conf)]
  }
  return [ok('server', what), ...checkTick(conf)]
}

function modeOf(srvr: string): string | undefined {
  return /^Mode: (\w+)/m.exec(srvr)?.[1]
}

/** That a session is no shorter than two ticks is what the certain part of its time is counted from. */
function checkTick(conf: string | null): Finding[] {
  const tick = Number(/^tickTime=(\d+)/m.exec(conf ?? '')?.[1])
  const least = Number(/^minSessionTimeout=(\d+)/m.exec(conf ?? '')?.[1])
  if (!(tick > 0) || !(least > 0)) return []
  if (least >= 2 * tick) return [ok('ticks', `of ${tick} ms, and sessions of ${least} ms at least`)]
  const advice =
    'A server that is cut off can be up to half a tick behind in what it told the leader. Leave `minSessionTimeout` at two ' +
    'ticks or more, or ask for sessions of two ticks or more with `sessionMs`.'
  return [finding('note', 'ticks', `of ${tick} ms, but sessions of ${least} ms are allowed`, advice)]
}

function checkEnsemble(servers: readonly ServerFacts[]): Finding[] {
  const modes = servers.flatMap(({ srvr }) => modeOf(srvr ?? '') ?? [])
  if (modes.includes('standalone')) {
    const advice =
      'When it is down, nobody gets a lock, and when its disk is lost, so are the fences. Use three servers or five.'
    return [finding('note', 'ensemble', 'one server, alone', advice)]
  }
  if (servers.length === 1) {
    const advice = 'Name the others as well: zookeeper://host-1,host-2,host-3/path.'
    return [finding('note', 'ensemble', 'one server of several is named', advice)]
  }
  if (servers.length % 2 === 0) {
    const advice = 'An even number survives no more failures than one server less.'
    return [finding('note', 'ensemble', count(servers.length, 'server'), advice)]
  }
  return [ok('ensemble', count(servers.length, 'server'))]
}

/** null: the base is not there yet. */
export function checkAccess(
  base: string,
  acl: readonly Acl[] | 'refused' | null,
  isRemote: boolean,
): Finding[] {
  const name = quote(base)
  if (acl === 'refused') {
    const advice = 'Give the user and the password in the URL, or have the access list of the path changed.'
    return [finding('danger', 'access', `${name} does not let this client in`, advice)]
  }
  if (acl === null) return [ok('access', `${name} is not there yet, and will be made`)]
  const isOpen = acl.some(({ scheme, perms }) => scheme === 'world' && perms !== 1)
  if (!isOpen || !isRemote)
    return [ok('access', isOpen ? `${name} is open to everybody` : `${name} has an access list`)]
  const advice = 'Whoever reaches the servers can remove locks. Use `acl=creator` with a user and a password.'
  return [finding('note', 'access', `${name} is open to everybody`, advice)]
}
