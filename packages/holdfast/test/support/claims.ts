import type { Claim, Sink } from '../../src/core/backend.js'

export const NO_SINK: Sink = { granted: () => {}, wanted: () => {}, hint: () => {}, lost: () => {} }

let ids = 0

export function claimOf(resource: string, changes: Partial<Claim> = {}): Claim {
  ids += 1
  return {
    id: `id-${ids}`,
    resource,
    shape: { kind: 'mutex', limit: 1 },
    weight: 1,
    ttlMs: 10_000,
    owner: { host: 'box', pid: 7, client: 'c1' },
    note: null,
    ...changes,
  }
}
