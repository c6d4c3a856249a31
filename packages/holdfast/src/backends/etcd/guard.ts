/**
 * Guards keys of etcd: what is written with a hold that has ended is refused. This is the resource's side of fencing, for
 * data that is in the same etcd as the locks: the server itself looks, in the same transaction, whether the key of the claim
 * is still the one that the hold stands on.
 */

import { InvalidInputError, StaleFenceError } from '../../core/errors.js'
import { FENCE_STEP } from '../../core/hold.js'
import { checkFence } from '../../core/options.js'
import { parseEtcdUrl } from './address.js'
import { layoutFrom } from './backend.js'
import { strangeAnswer } from './errors.js'
import type { Layout } from './layout.js'
import type { EtcdLink } from './link.js'
import {
  NOT_EQUAL,
  OF_CREATION,
  RANGE,
  type RequestOp,
  SORT_BY_CREATION,
  SORT_DESCENDING,
  TXN,
  type TxnResponse,
} from './messages.js'
import { lineOptionsOf, openEtcdLink } from './open.js'

/** As much of a hold as is needed. */
export interface Fenced {
  readonly resource: string
  readonly fence: bigint
}

/** What a transaction of your own has to ask for, so that it does nothing once the hold is over. */
export interface FenceCondition {
  /** The key of the claim. */
  readonly key: Buffer
  /** What its create revision must be: in etcd3, `.if(key, 'Create', '==', createRevision)`. */
  readonly createRevision: string
  /** The same as a `Compare` of etcd's own API, as JSON and as most generated clients take it. */
  readonly compare: {
    readonly key: Buffer
    readonly target: 'CREATE'
    readonly result: 'EQUAL'
    readonly create_revision: string
  }
}

/**
 * Every method that takes a hold rejects with `StaleFenceError` if its claim is gone. A rejection with
 * `OutcomeUnknownError` leaves open whether it happened; the same may then be done again with the same hold.
 *
 * Callers of one process who hand a lock on among themselves do so without the store, and are the same to it. Between them
 * `hold.assertHeld()` tells.
 */
export interface EtcdGuard {
  put(hold: Fenced, key: string, value: string): Promise<void>
  /** Whether there was something to delete. */
  del(hold: Fenced, key: string): Promise<boolean>
  /** Only looks: it says nothing about the next moment, but what it gives does, in a transaction of your own. */
  conditionOf(hold: Fenced): Promise<FenceCondition>
  close(): Promise<void>
}

/** A guard for the locks that `connect()` gives with the same URL. */
export async function etcdGuard(url: string): Promise<EtcdGuard> {
  const address = parseEtcdUrl(url)
  const layout = layoutFrom(lineOptionsOf(address))
  return new Guard(await openEtcdLink(address), layout)
}

class Guard implements EtcdGuard {
  readonly #link: EtcdLink
  readonly #layout: Layout

  constructor(link: EtcdLink, layout: Layout) {
    this.#link = link
    this.#layout = layout
  }

  async put(hold: Fenced, key: string, value: string): Promise<void> {
    const bytes = keyOf(key)
    if (typeof value !== 'string') throw new InvalidInputError('value', 'a text', value)
    await this.#pass(hold, { put: { key: bytes, value: Buffer.from(value) } })
  }

  async del(hold: Fenced, key: string): Promise<boolean> {
    const answer = await this.#pass(hold, { deleteRange: { key: keyOf(key) } })
    return (answer.responses[0]?.deleteRange?.deleted ?? 0n) > 0n
  }

  async conditionOf(hold: Fenced): Promise<FenceCondition> {
    const stored = storedIn(hold)
    const line = this.#layout.lineOf(hold.resource)
    const answer = await this.#link.call(RANGE, {
      ...line,
      minCreateRevision: stored,
      maxCreateRevision: stored,
      keysOnly: true,
    })
    const key = answer.kvs[0]?.key
    if (key === undefined) throw await this.#stale(hold)
    const createRevision = String(stored)
    return {
      key,
      createRevision,
      compare: { key, target: 'CREATE', result: 'EQUAL', create_revision: createRevision },
    }
  }

  close(): Promise<void> {
    return this.#link.close()
  }

  /**
   * Does something if a claim that was made in this revision is there. That none of them was is what can be asked about keys
   * that are not known by name, so what is to be done stands where that is not so.
   */
  async #pass(hold: Fenced, op: RequestOp): Promise<TxnResponse> {
    const createRevision = storedIn(hold)
    const line = this.#layout.lineOf(hold.resource)
    const answer = await this.#link.call(TXN, {
      compare: [{ ...line, result: NOT_EQUAL, target: OF_CREATION, createRevision }],
      failure: [op],
    })
    if (answer.succeeded) throw await this.#stale(hold)
    if (answer.responses.length !== 1) throw strangeAnswer('a result')
    return answer
  }

  async #stale({ resource, fence }: Fenced): Promise<StaleFenceError> {
    const answer = await this.#link.call(RANGE, {
      ...this.#layout.lineOf(resource),
      sortOrder: SORT_DESCENDING,
      sortTarget: SORT_BY_CREATION,
      limit: 1n,
      keysOnly: true,
    })
    // Where nobody has it, whoever gets it next will have a number above the present one of the store.
    const newest = answer.kvs[0]?.createRevision ?? answer.header?.revision ?? 0n
    return new StaleFenceError(fence, newest * FENCE_STEP, { resource, backend: 'etcd' })
  }
}

/** The store's own number, without the part that counts the hand-overs within a process. */
function storedIn({ fence }: Fenced): bigint {
  checkFence(fence)
  return fence / FENCE_STEP
}

function keyOf(key: unknown): Buffer {
  if (typeof key !== 'string' || key === '' || !key.isWellFormed()) {
    throw new InvalidInputError('key', 'the name of a key', key)
  }
  return Buffer.from(key)
}
