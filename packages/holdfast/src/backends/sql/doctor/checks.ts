/** What both databases are judged by in the same way. Pure: facts in, findings out. */

import type { Finding } from '../../../core/doctor.js'
import { finding, ok } from '../../shared/doctor/findings.js'

/** The ttl of a lock unless its user says otherwise, which is what timeouts are measured by. */
export const DEFAULT_TTL_MS = 30_000

const CROWDED = 0.8

/** Whether there is room for the connections of one more client. */
export function checkConnections(used: number, most: number, poolMax: number): Finding[] {
  const found = `${used} of ${most} connections in use`
  if (used < most * CROWDED && most - used >= poolMax) return [ok('connections', found)]
  const advice =
    `Raise \`max_connections\`, or lower \`max\` of the URL: a client of Holdfast takes up to ${poolMax}, and one that ` +
    'gets none cannot renew its locks.'
  return [finding('warning', 'connections', found, advice)]
}

export function inWords(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : `${ms / 1_000} s`
}

/** What is said where an answer was refused for want of rights. */
export function unseen(what: readonly string[]): Finding[] {
  if (what.length === 0) return []
  const found = `not allowed to look at ${what.join(', ')}`
  return [
    finding('note', 'insight', found, 'Run this once as a user who may, or ask whoever runs the server.'),
  ]
}

/** Timeouts that end the connection of a transaction while somebody holds a lock by it. */
export function endsTransactions(setting: string, ms: number, what: string): Finding {
  const found = `\`${setting}\` of ${inWords(ms)} ends ${what}, and the lock with it`
  if (ms >= DEFAULT_TTL_MS) {
    return finding(
      'note',
      'timeouts',
      found,
      'Holders hear of it. Raise it if locks are held for longer than that.',
    )
  }
  const advice = `That is less than the ttl of ${inWords(DEFAULT_TTL_MS)}. Raise it for the role that Holdfast uses, or set it to 0.`
  return finding('danger', 'timeouts', found, advice)
}
