/** Looks for what breaks locks in how etcd is set up. Nothing is changed, and no lock is touched. */

import type { Finding } from '../../core/doctor.js'
import { HoldfastError, UnsupportedError } from '../../core/errors.js'
import { finding, ok, type ProbeRuntime } from '../shared/doctor/findings.js'
import { measureLatency } from '../shared/doctor/timing.js'
import { type EtcdAddress, parseEtcdUrl } from './address.js'
import { layoutFrom } from './backend.js'
import {
  type ClusterFacts,
  checkCluster,
  checkMember,
  checkTransport,
  type MemberFacts,
} from './doctor/checks.js'
import { isWithoutSpace } from './errors.js'
import type { Layout } from './layout.js'
import type { EtcdLink } from './link.js'
import { ALARM, ALARM_NO_SPACE, EQUAL, MEMBER_LIST, OF_CREATION, RANGE, STATUS, TXN } from './messages.js'
import { lineOptionsOf, openEtcd, openEtcdLink } from './open.js'

/** No lock can have this name, because names have no control characters: so nothing of anybody's is touched. */
const NOBODYS_NAME = '\u0000doctor'
/** No key was ever made in this revision. */
const NEVER = -1n

/** Examines what a URL for `connect()` leads to. Rejects where nothing can be found out, because nobody answers. */
export async function examineEtcdUrl(url: string, { clock }: ProbeRuntime): Promise<Finding[]> {
  // What `connect()` would refuse, an option that is misspelt for one, is refused here in the same words.
  const backend = await openEtcd(url)
  await backend.close()
  const address = parseEtcdUrl(url)
  const layout = layoutFrom(lineOptionsOf(address))
  const members: MemberFacts[] = []
  for (const endpoint of address.endpoints) {
    members.push({ endpoint, status: await statusOf({ ...address, endpoints: [endpoint] }) })
  }
  const link = await openEtcdLink(address)
  try {
    const mayRead = await rightTo(() => link.call(RANGE, { ...layout.lineOf(NOBODYS_NAME), countOnly: true }))
    const cluster = await clusterFacts(link)
    // With an alarm every write is refused, whoever asks.
    const mayWrite = cluster.alarms.length > 0 ? 'alarmed' : await rightToWrite(link, layout)
    // The first write that finds no space raises the alarm, and that may have been this one.
    const alarms = mayWrite === 'no space' ? [ALARM_NO_SPACE] : cluster.alarms
    return [
      ...checkTransport(address),
      ...members.flatMap((member) => checkMember(member, members.length === 1)),
      ...checkCluster({ ...cluster, alarms }),
      ...(typeof mayWrite === 'boolean' ? checkRights(mayRead, mayWrite) : []),
      ...(mayRead ? await measureLatency(() => ping(link, layout), clock) : []),
    ]
  } finally {
    await link.close()
  }
}

async function ping(link: EtcdLink, layout: Layout): Promise<void> {
  await link.call(RANGE, { ...layout.lineOf(NOBODYS_NAME), countOnly: true })
}

async function statusOf(address: EtcdAddress): Promise<MemberFacts['status']> {
  let link: EtcdLink | null = null
  try {
    link = await openEtcdLink(address)
    return await link.call(STATUS, {})
  } catch (error) {
    if (error instanceof HoldfastError) return null
    throw error
  } finally {
    await link?.close()
  }
}

async function clusterFacts(link: EtcdLink): Promise<ClusterFacts> {
  const members = await allowed(() => link.call(MEMBER_LIST, {}))
  const alarms = await allowed(() => link.call(ALARM, {}))
  const voters = members?.members.filter(({ isLearner }) => !isLearner).length ?? 0
  return {
    members: members === null ? null : { voters, learners: members.members.length - voters },
    alarms: alarms?.alarms.map(({ alarm }) => alarm) ?? [],
  }
}

/** null where this user may not ask. */
async function allowed<T>(ask: () => Promise<T>): Promise<T | null> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof UnsupportedError) return null
    throw error
  }
}

async function rightTo(ask: () => Promise<unknown>): Promise<boolean> {
  return (await allowed(async () => ({ answer: await ask() }))) !== null
}

/** A write is really asked for, under a condition that is never met. The server looks at the rights all the same. */
async function rightToWrite(link: EtcdLink, layout: Layout): Promise<boolean | 'no space'> {
  const key = layout.keyOf(NOBODYS_NAME, 0n, 0)
  const never = { key, result: EQUAL, target: OF_CREATION, createRevision: NEVER }
  try {
    return await rightTo(() => link.call(TXN, { compare: [never], success: [{ put: { key } }] }))
  } catch (error) {
    if (isWithoutSpace(error)) return 'no space'
    throw error
  }
}

function checkRights(mayRead: boolean, mayWrite: boolean): Finding[] {
  if (mayRead && mayWrite) return [ok('rights', 'all that are needed')]
  const lacking = [...(mayRead ? [] : ['reading']), ...(mayWrite ? [] : ['writing'])].join(' and ')
  const advice =
    'Give a role of the user the right to read and write all keys that begin with the prefix: ' +
    '`etcdctl role grant-permission ROLE readwrite PREFIX --prefix=true`.'
  return [finding('danger', 'rights', `${lacking} is refused: nothing can be locked`, advice)]
}
