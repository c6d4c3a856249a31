/** What to make of what the members of a cluster say. */

import type { Finding } from '../../../core/doctor.js'
import { count, finding, isLoopback, ok } from '../../shared/doctor/findings.js'
import type { EtcdAddress } from '../address.js'
import { ALARM_CORRUPT, ALARM_NO_SPACE, type StatusResponse } from '../messages.js'
import { hasLeaseFault, LEASE_FAULT_ADVICE } from '../version.js'

/** What one member said; null where it did not answer. */
export interface MemberFacts {
  readonly endpoint: string
  readonly status: StatusResponse | null
}

export interface ClusterFacts {
  /** Those that vote, and those that only learn; null where it may not be asked. */
  readonly members: { readonly voters: number; readonly learners: number } | null
  readonly alarms: readonly number[]
}

export function checkTransport({ tls, hosts, username }: EtcdAddress): Finding[] {
  if (tls) return [ok('transport', 'TLS')]
  if (hosts.every(isLoopback)) return [ok('transport', 'TCP within this machine')]
  if (username === undefined) {
    const advice = 'Whoever reaches the server can break every lock. Use users and TLS, `etcds://`.'
    return [finding('note', 'transport', 'TCP to another machine, without a user', advice)]
  }
  const advice = 'Whoever can listen on the way learns the password. Use TLS: `etcds://`.'
  return [finding('warning', 'transport', 'TCP to another machine, with the password in the clear', advice)]
}

export function checkMember({ endpoint, status }: MemberFacts, isOne: boolean): Finding[] {
  const at = isOne ? '' : ` at ${endpoint}`
  if (status === null) {
    const advice = 'Start it, or take its address out of the URL.'
    return [finding('warning', 'member', `nobody answers${at || ` at ${endpoint}`}`, advice)]
  }
  return [...checkVersion(status, at), ...checkLeader(status, at), ...checkLearner(status, at)]
}

function checkVersion({ version }: StatusResponse, at: string): Finding[] {
  const fault = hasLeaseFault(version)
  // It comes from outside, and is shown only if it looks like what it should be.
  const shown = /^[\w.+-]{1,40}$/.test(version) ? version : 'unknown'
  if (fault === true) return [finding('warning', 'version', `${shown}${at}`, LEASE_FAULT_ADVICE)]
  if (fault === false) return [ok('version', `${shown}${at}`)]
  return [
    finding('note', 'version', `${shown}${at}`, 'Version 3.4.31 or later is needed. Check which one it is.'),
  ]
}

function checkLeader({ leader }: StatusResponse, at: string): Finding[] {
  if (leader !== 0n) return []
  const advice =
    'Nothing can be locked until most of the members reach each other. See `etcdctl endpoint status`.'
  return [finding('danger', 'leader', `the member${at} knows no leader`, advice)]
}

function checkLearner({ isLearner }: StatusResponse, at: string): Finding[] {
  if (!isLearner) return []
  const advice =
    'It takes no requests yet. Promote it with `etcdctl member promote`, or take it out of the URL.'
  return [finding('warning', 'member', `the member${at} is a learner`, advice)]
}

export function checkCluster({ members, alarms }: ClusterFacts): Finding[] {
  return [...checkMembers(members), ...checkAlarms(alarms)]
}

function checkMembers(members: ClusterFacts['members']): Finding[] {
  if (members === null) return []
  const { voters } = members
  const found = count(voters, 'voting member')
  if (voters === 1) {
    const advice = 'When it is down nothing can be locked. Three members survive the loss of one.'
    return [finding('note', 'members', found, advice)]
  }
  if (voters % 2 === 1) return [ok('members', found)]
  return [finding('note', 'members', found, 'An even number survives no more failures than one member less.')]
}

function checkAlarms(alarms: readonly number[]): Finding[] {
  const findings: Finding[] = []
  if (alarms.includes(ALARM_NO_SPACE)) {
    const advice =
      'Compact and defragment it, raise `--quota-backend-bytes`, and then run `etcdctl alarm disarm`.'
    findings.push(
      finding('danger', 'alarms', 'no space is left: writes are refused, and so is every lock', advice),
    )
  }
  if (alarms.includes(ALARM_CORRUPT)) {
    const advice = 'Members disagree about the data. See the manual of etcd on data corruption.'
    findings.push(finding('danger', 'alarms', 'the data of a member is corrupt', advice))
  }
  return findings.length > 0 ? findings : [ok('alarms', 'none')]
}
