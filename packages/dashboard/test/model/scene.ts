/** Two owners and a moment, for tests of what can be computed. */

import type { Activity, ActivityKind, ClaimView } from '../../src/model/contract.js'
import { Rows } from '../../src/model/rows.js'
import { claim, happened } from '../made-up-service.js'

export const T = Date.parse('2026-01-01T00:00:00Z')

export function event(
  seq: number,
  s: number,
  kind: ActivityKind,
  who: ClaimView,
  more: Partial<Activity> = {},
): Activity {
  return happened(seq, T + s * 1_000, kind, who, more)
}

export const one = claim('1', { owner: { host: 'a', pid: 1, client: 'x' } })
export const two = claim('2', { owner: { host: 'b', pid: 2, client: 'y' } })

export function rowsOf(...locks: Parameters<Rows['part']>[0]): Rows {
  const rows = new Rows()
  rows.part(locks, false, 0)
  return rows
}
