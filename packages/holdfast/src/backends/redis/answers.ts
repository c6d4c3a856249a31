/** What the line script says, as the core wants to hear it. */

import type { ClaimView, Kind, ResourceView, Shape, Verdict } from '../../core/backend.js'
import { admittedCount } from '../../core/line.js'
import { refOf } from '../../core/names.js'
import { NOBODY_KNOWN, readWho } from '../shared/who.js'
import { strangeAnswer } from './errors.js'

const KINDS: ReadonlySet<string> = new Set<Kind>(['mutex', 'semaphore', 'read-write'])

export interface ReadVerdict {
  readonly verdict: Verdict
  /** Somebody waits behind a claim that is granted. */
  readonly isWanted: boolean
}

export function readVerdict(text: string): ReadVerdict {
  switch (text.slice(0, 1)) {
    case 'g': {
      const [, fence, lease, wanted, weight] = text.split(' ')
      const verdict: Verdict = {
        kind: 'granted',
        fence: fenceIn(fence),
        leaseMs: numberIn(lease),
        weight: numberIn(weight),
      }
      return { verdict, isWanted: wanted === '1' }
    }
    case 'w': {
      const [[, fence, lease, weight, ahead, first], who] = words(text, 6)
      const verdict: Verdict = {
        kind: 'waiting',
        fence: fenceIn(fence),
        leaseMs: numberIn(lease),
        weight: numberIn(weight),
        ahead: numberIn(ahead),
        retryAfterMs: first === '-' ? null : numberIn(first),
        holder: readWho(who),
      }
      return { verdict, isWanted: false }
    }
    case 'n': {
      const [[, first], who] = words(text, 2)
      const retryAfterMs = first === '-' ? null : numberIn(first)
      return { verdict: { kind: 'refused', retryAfterMs, holder: readWho(who) }, isWanted: false }
    }
    case 'm': {
      const [, kind, limit] = text.split(' ')
      return { verdict: { kind: 'mismatched', shape: shapeIn(kind, limit) }, isWanted: false }
    }
    default:
      throw strangeAnswer(text)
  }
}

/** One claim as the script shows it. The id is for the backend only. */
export interface ReadClaim {
  readonly id: string
  readonly view: ClaimView
}

export interface ReadLine {
  readonly view: ResourceView
  readonly claims: readonly ReadClaim[]
}

export function readLine(resource: string, text: string): ReadLine {
  const [state, ...lines] = text.split('\n').filter((line) => line !== '')
  if (state === undefined || lines.length === 0) {
    return { view: { resource, shape: null, holders: [], waiters: [] }, claims: [] }
  }
  const [kind, limit] = state.split(' ')
  const shape = shapeIn(kind, limit)
  const claims = lines.map(readClaim)
  const views = claims.map(({ view }) => view)
  const admitted = admittedCount(views, shape.limit)
  const view = { resource, shape, holders: views.slice(0, admitted), waiters: views.slice(admitted) }
  return { view, claims }
}

function readClaim(line: string): ReadClaim {
  const [[id, fence, weight, left, age], who] = words(line, 5)
  const { owner, note } = readWho(who) ?? NOBODY_KNOWN
  const view: ClaimView = {
    ref: refOf(id as string),
    owner,
    note,
    weight: numberIn(weight),
    fence: fenceIn(fence),
    ageMs: numberIn(age),
    remainingMs: numberIn(left),
  }
  return { id: id as string, view }
}

/** The first `count` words, and the rest as it is. */
function words(text: string, count: number): [string[], string] {
  const found: string[] = []
  let from = 0
  while (found.length < count) {
    const to = text.indexOf(' ', from)
    if (to < 0) throw strangeAnswer(text)
    found.push(text.slice(from, to))
    from = to + 1
  }
  return [found, text.slice(from)]
}

function fenceIn(word: string | undefined): bigint {
  if (word === undefined || !/^\d+$/.test(word)) throw strangeAnswer(word)
  return BigInt(word)
}

function numberIn(word: string | undefined): number {
  const value = Number(word)
  if (word === undefined || word === '' || !Number.isFinite(value)) throw strangeAnswer(word)
  return value
}

function shapeIn(kind: string | undefined, limit: string | undefined): Shape {
  if (kind === undefined || !KINDS.has(kind)) throw strangeAnswer(kind)
  return { kind: kind as Kind, limit: numberIn(limit) }
}
