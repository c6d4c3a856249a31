/** What the script of the records says, as the core wants to hear it. */

import { BackendUnavailableError, quote, UnsupportedError } from '../../core/errors.js'
import { decideClaim } from '../../core/record-rule.js'
import type { ClaimAnswer, ClaimAsk, RecordView, SpendAnswer } from '../../core/records.js'
import { strangeAnswer } from './errors.js'
import { readRecord, recordIn } from './record-value.js'

const CLAIMED = /^c (\d+) (\d+) ([01]) (\d+) (\d+) (=?)/
const IN_PROGRESS = /^p (\d+) (\d+) (\d+)$/
const ABANDONED = /^a (\d+) (\d+)$/
const SPENT = /^([sun]) (\d+)$/

export function readClaim(answer: unknown, ask: ClaimAsk): ClaimAnswer {
  if (typeof answer !== 'string') throw strangeAnswer(answer)
  switch (answer.charAt(0)) {
    case 'c': {
      const [head, fence, attempt, taken, leaseMs, created, mark] = matched(CLAIMED, answer)
      return {
        kind: 'claimed',
        fence: BigInt(fence),
        attempt: Number(attempt),
        tookOver: taken === '1',
        progress: mark === '' ? null : answer.slice(head.length),
        createdAtMs: Number(created),
        leaseMs: Number(leaseMs),
      }
    }
    case 'h': {
      const settled = readFound(answer, ask)
      if (settled === null) throw strangeAnswer(answer)
      return settled
    }
    case 'p': {
      const [, fence, attempt, leaseMs] = matched(IN_PROGRESS, answer)
      return {
        kind: 'in-progress',
        fence: BigInt(fence),
        attempt: Number(attempt),
        leaseMs: Number(leaseMs),
      }
    }
    case 'a': {
      const [, fence, attempt] = matched(ABANDONED, answer)
      return { kind: 'abandoned', fence: BigInt(fence), attempt: Number(attempt) }
    }
    case 'm':
      return { kind: 'mismatch' }
    case 'n':
      return { kind: 'missing' }
    default:
      throw strangeAnswer(answer)
  }
}

/**
 * What the rule says of a record that a claim has found, as far as that does not depend on what is left of its lease; null:
 * the script must say.
 */
export function readFound(text: string, ask: ClaimAsk): ClaimAnswer | null {
  const record = readRecord(text)
  if (record === null) return null
  const decision = decideClaim({ record, leaseMs: 0 }, ask, null)
  if (decision.kind !== 'answer') return null
  const { answer } = decision
  return answer.kind === 'settled' || answer.kind === 'mismatch' ? answer : null
}

/** Nothing is `0`; else it is the record, and what is left of its lease. */
export function readView(answer: unknown): RecordView | null {
  if (answer === '0') return null
  if (!Array.isArray(answer)) throw strangeAnswer(answer)
  const [text, left] = answer as unknown[]
  const record = recordIn(text)
  return { ...record, leaseMs: record.state === 'in-progress' ? Number(left) : null }
}

export function readSpend(answer: unknown): SpendAnswer {
  const [, kind, uses] = matched(SPENT, String(answer))
  return { kind: kind === 's' ? 'spent' : kind === 'u' ? 'used' : 'missing', uses: Number(uses) }
}

/** Whether something was done, of those who say only that. */
export function readFlag(answer: unknown): boolean {
  if (answer !== '1' && answer !== '0') throw strangeAnswer(answer)
  return answer === '1'
}

/** What the script refuses to touch; null where it has answered. The key is a digest, and is not told all the same. */
export function refusalIn(answer: unknown, prefix: string): Error | null {
  if (answer === '! format') return foreignRecord(prefix)
  if (answer === '! fence') {
    return new BackendUnavailableError(
      'The fence of a record has come to its end, because the clock of Redis is far off. Set it, and delete the key.',
      { backend: 'redis' },
    )
  }
  return null
}

/** The key is there, and what is in it was not written by this version of Holdfast. It is never overwritten. */
export function foreignRecord(prefix: string, cause?: unknown): UnsupportedError {
  return new UnsupportedError(
    `A key that begins with ${quote(prefix)} is in use for something else, or by another version of Holdfast. ` +
      'Nothing was changed; use another `prefix`.',
    { backend: 'redis', cause },
  )
}

type Words = [string, string, string, string, string, string, string]

function matched(pattern: RegExp, answer: string): Words {
  const found = pattern.exec(answer)
  if (found === null) throw strangeAnswer(answer)
  return found as unknown as Words
}
