import type { Promises, ResourceNote } from '../../history/format.js'
import type { Call, Hold, ResourceBook } from '../calls.js'
import { saysNotHeld } from '../calls.js'
import type { Violation } from '../verdict.js'
import { fencedMutex } from './models/fenced.js'
import { idempotent } from './models/idempotent.js'
import { leaseMutex } from './models/lease-mutex.js'
import { mutex } from './models/mutex.js'
import { ownerMutex } from './models/owner-mutex.js'
import { readWrite } from './models/read-write.js'
import { reentrantMutex } from './models/reentrant.js'
import { reentrantFencedMutex } from './models/reentrant-fenced.js'
import { register } from './models/register.js'
import { semaphore } from './models/semaphore.js'
import type { Model, Operation } from './operation.js'
import { type SearchBounds, type SearchResult, searchOrder } from './search.js'

/** The models that can be asked for by name. */
export const MODELS = [
  'mutex',
  'owner-mutex',
  'lease-mutex',
  'reentrant',
  'fenced',
  'reentrant-fenced',
  'semaphore',
  'read-write',
  'register',
  'idempotent',
] as const

export type ModelName = (typeof MODELS)[number]

/** Which model a resource has to follow; null if there is none, and the search has nothing to say. */
export function modelFor(note: ResourceNote, promises: Promises): ModelName | null {
  switch (note.kind) {
    case 'semaphore':
    case 'read-write':
    case 'register':
    case 'idempotent':
      return note.kind
    case 'set':
      return null
    case 'mutex':
      if (note.reentrant === true) return promises.fences === true ? 'reentrant-fenced' : 'reentrant'
      return promises.fences === true ? 'fenced' : 'lease-mutex'
  }
}

/** Looks for an order that explains all calls on one resource. */
export function findOrder(
  name: ModelName,
  book: ResourceBook,
  note: ResourceNote,
  bounds: SearchBounds = {},
): SearchResult {
  const operations = operationsOf(name, book)
  const search = <S>(model: Model<S>) => searchOrder(model, operations, bounds)
  switch (name) {
    case 'mutex':
      return search(mutex)
    case 'owner-mutex':
      return search(ownerMutex)
    case 'lease-mutex':
      return search(leaseMutex)
    case 'reentrant':
      return search(reentrantMutex)
    case 'fenced':
      return search(fencedMutex)
    case 'reentrant-fenced':
      return search(reentrantFencedMutex)
    case 'semaphore':
      return search(semaphore(note.limit ?? 1))
    case 'read-write':
      return search(readWrite)
    case 'register':
      return search(register)
    case 'idempotent':
      return search(idempotent)
  }
}

const OF_VALUES: ReadonlySet<string> = new Set(['read', 'write', 'execute'])

/** What of a book a model is about. What certainly had no effect is left out. */
export function operationsOf(name: ModelName, book: ResourceBook): Operation[] {
  if (name === 'register' || name === 'idempotent') {
    return book.calls
      .filter(({ f, outcome }) => OF_VALUES.has(f) && outcome !== 'fail')
      .filter(({ f, outcome }) => f !== 'read' || outcome === 'ok')
      .map((call) => operationOf(call))
  }
  const operations: Operation[] = []
  const unknown = new UnknownAcquisitions(book.holds.length)
  for (const call of book.calls) {
    const hold = book.holds[call.hold]
    if (hold?.doubtful === true) continue
    if (call.f === 'acquire') {
      if (call.outcome === 'ok') operations.push(operationOf(call))
      else if (call.outcome !== 'fail') unknown.add(call)
    } else if (call.f === 'release') operations.push(...releaseOf(call, hold, unknown))
    else if ((call.f === 'assert' || call.f === 'extend') && hold !== undefined) {
      if (call.outcome === 'ok' && hold.ended !== 'evicted') operations.push(operationOf(call))
    }
  }
  for (const hold of book.holds) if (isCutShort(hold)) operations.push(endOf(hold))
  return operations
}

function releaseOf(call: Call, hold: Hold | undefined, unknown: UnknownAcquisitions): Operation[] {
  const operation = operationOf(call)
  if (hold === undefined) return call.outcome === 'fail' ? [] : unknown.releasedBy(operation)
  if (call.outcome === 'fail') return saysNotHeld(call.output?.error) ? [operation] : []
  // What ended before its release was asked for has an operation of its own for that.
  return [isCutShort(hold) ? { ...operation, ret: null } : operation]
}

/**
 * An acquisition of which nobody knows whether it worked need not have: it is only needed where its caller released
 * something afterwards, and that worked.
 */
class UnknownAcquisitions {
  readonly #of = new Map<string, Call[]>()
  #number: number

  constructor(firstFreeNumber: number) {
    this.#number = firstFreeNumber
  }

  add(call: Call): void {
    const own = this.#of.get(call.p)
    if (own === undefined) this.#of.set(call.p, [call])
    else own.push(call)
  }

  releasedBy(release: Operation): Operation[] {
    const acquisition = release.ret === null ? undefined : this.#of.get(release.p)?.shift()
    if (acquisition === undefined) return [release]
    const hold = this.#number++
    return [
      { ...operationOf(acquisition), hold },
      { ...release, hold },
    ]
  }
}

function isCutShort({ ended, doubtful }: Hold): boolean {
  return !doubtful && ended !== 'released' && ended !== 'open'
}

function endOf({ p, to, number }: Hold): Operation {
  return { f: 'over', p, call: to, ret: null, input: undefined, output: undefined, hold: number }
}

function operationOf({ f, p, asked, ended, outcome, input, output, hold }: Call): Operation {
  return { f, p, call: asked, ret: outcome === 'ok' ? ended : null, input, output, hold }
}

/** Says in one sentence why there is no order. */
export function explainStuck(
  resource: string,
  model: ModelName,
  result: SearchResult & { readonly verdict: 'invalid' },
): Violation {
  const { stuck, fitted, beside } = result
  const at = stuck.ret ?? stuck.call
  const others = beside.map(({ f, p }) => `${f} of ${p}`)
  const among = others.length === 0 ? '' : `, with ${others.join(', ')} under way`
  return {
    kind: 'not-linearizable',
    resource,
    at,
    message: `No order of the calls makes this a ${model}: ${fitted} fit, and then ${stuck.f} of ${stuck.p} does not${among}.`,
    involved: [stuck, ...beside].map(({ p, call, ret }) => ({ p, from: call, to: ret ?? at })),
  }
}
