/** Versions of etcd that are known to lose leases, and how people get to know. */

import process from 'node:process'
import type { EtcdLink } from './link.js'
import { STATUS } from './messages.js'

/** Until here a leader that was paused ends leases that are alive, when it goes on: etcd-io/etcd, number 15247. */
const FIRST_GOOD: ReadonlyMap<string, number> = new Map([
  ['3.4', 31],
  ['3.5', 13],
])

const told = new Set<string>()

/** Whether a version has the fault; null where the text is no version. */
export function hasLeaseFault(version: string): boolean | null {
  const parts = /^(\d+)\.(\d+)\.(\d+)/.exec(version)
  if (parts === null) return null
  const [, major = '', minor = '', patch = ''] = parts
  const firstGood = FIRST_GOOD.get(`${major}.${minor}`)
  if (firstGood !== undefined) return Number(patch) < firstGood
  return Number(major) < 3 || (Number(major) === 3 && Number(minor) < 4)
}

export const LEASE_FAULT_ADVICE =
  'Its leader can end leases that are alive after it was paused or its disk was slow, and a lock is then lost before its ' +
  'holder knows. Use etcd 3.4.31, 3.5.13 or later, and let what you protect check the fence.'

/** Warns once per version and process. That nobody answers is for the first request to say. */
export async function warnOfVersion(link: EtcdLink): Promise<void> {
  let version: string
  try {
    version = (await link.call(STATUS, {})).version
  } catch {
    return
  }
  if (hasLeaseFault(version) !== true || told.has(version)) return
  told.add(version)
  process.emitWarning(
    `etcd ${version} has a fault. ${LEASE_FAULT_ADVICE} The option \`versionWarning\` turns this off.`,
    {
      type: 'HoldfastWarning',
      code: 'HOLDFAST_ETCD_LEASE_BUG',
    },
  )
}
