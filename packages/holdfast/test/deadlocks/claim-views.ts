/** Lines of claims as a store would show them, made by hand. */

import type { ClaimView, Kind, ResourceView } from '../../src/core/backend.js'
import { writeFlowMark } from '../../src/core/flow-text.js'
import { LIMIT_MAX } from '../../src/core/line.js'

export interface ClaimSketch {
  /** Which flow; a number names a flow of its own, with parts behind it for what runs inside: `3-1`. */
  readonly flow?: string | undefined
  /** Where there is no flow: which process. */
  readonly pid?: number
  readonly weight?: number
  readonly ageMs?: number
  readonly shows?: 'only'
  readonly ref?: string
}

let made = 0

/** `3-1` as the path of a flow. */
export function pathOf(flow: string): string {
  const [first = '', ...inside] = flow.split('-')
  return [first.padStart(16, '0'), ...inside].join('-')
}

export function claim(sketch: ClaimSketch): ClaimView {
  made += 1
  const { flow, pid = 1, weight = 1, ageMs = 1_000, ref = `r${made}` } = sketch
  const client = flow === undefined ? 'c' : writeFlowMark('c', pathOf(flow), sketch.shows === undefined)
  const owner = { host: 'h', pid: flow === undefined ? pid : 100 + Number(flow.split('-')[0]), client }
  return { ref, owner, note: null, weight, fence: 1n, ageMs, remainingMs: 1_000 }
}

export function line(
  resource: string,
  { kind = 'mutex', limit = kind === 'read-write' ? LIMIT_MAX : 1 }: { kind?: Kind; limit?: number },
  holders: readonly ClaimSketch[],
  waiters: readonly ClaimSketch[],
): ResourceView {
  return { resource, shape: { kind, limit }, holders: holders.map(claim), waiters: waiters.map(claim) }
}

export const mutex = (resource: string, holder: ClaimSketch, ...waiters: ClaimSketch[]): ResourceView =>
  line(resource, {}, [holder], waiters)
