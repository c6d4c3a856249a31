/**
 * A resource that guards itself, in a process of its own: registers and sets that take a write only with a fence that is
 * not lower than the highest they have seen. It keeps a log of its own, which owes nothing to the word of the writers.
 */

import type { Violation } from '../check/verdict.js'
import type { Micros } from '../history/format.js'
import { grouped } from './grouped.js'

export type RegisterRequest =
  /** Shows the fence first and reads then, so that no lower one can write between the read and the write. */
  | {
      readonly id: number
      readonly op: 'read'
      readonly k: string
      readonly fence: string
      readonly who: string
    }
  | {
      readonly id: number
      readonly op: 'write'
      readonly k: string
      readonly fence: string
      readonly who: string
      readonly value: string
    }
  | {
      readonly id: number
      readonly op: 'replace'
      readonly k: string
      readonly fence: string
      readonly who: string
      readonly elements: readonly string[]
    }
  /** For the one who looks when all is over: shows no fence. */
  | { readonly id: number; readonly op: 'look'; readonly k: string }

export interface RegisterAnswer {
  readonly id: number
  /** null, or the code of the error. */
  readonly error: string | null
  readonly value: string | null
  readonly elements: readonly string[]
}

/** One line of the log. */
export interface RegisterEntry {
  readonly t: Micros
  readonly k: string
  readonly fence: string
  readonly who: string
  readonly write: boolean
  readonly accepted: boolean
}

/**
 * Reads the log as somebody who does not know how the gate works: whatever was accepted must never have a lower fence
 * than what was accepted before it, and one fence must have been shown by one writer only.
 */
export function judgeRegisterLog(entries: readonly RegisterEntry[]): Violation[] {
  const violations: Violation[] = []
  for (const [k, ofName] of grouped(entries, (entry) => entry.k)) {
    let highest = -1n
    const writers = new Map<string, string>()
    for (const { t, fence, who, accepted } of ofName) {
      if (!accepted) continue
      if (BigInt(fence) < highest) violations.push(staleOf(k, t, who, fence, highest))
      else highest = BigInt(fence)
      const other = writers.get(fence)
      if (other !== undefined && other !== who) violations.push(reusedOf(k, t, [other, who], fence))
      writers.set(fence, who)
    }
  }
  return violations
}

function staleOf(k: string, at: Micros, who: string, fence: string, highest: bigint): Violation {
  const message = `${k} accepted a write of ${who} with fence ${fence}, after it had accepted ${highest}.`
  return { kind: 'stale-write-accepted', resource: k, at, message, involved: [{ p: who, from: at, to: at }] }
}

function reusedOf(
  k: string,
  at: Micros,
  [first, second]: readonly [string, string],
  fence: string,
): Violation {
  const message = `${first} and ${second} both came to ${k} with fence ${fence}.`
  const involved = [first, second].map((p) => ({ p, from: at, to: at }))
  return { kind: 'fence-reused', resource: k, at, message, involved }
}
