/** The few requests of Consul that locks are made of. */

import type { ConsulAnswer, ConsulClient } from './client.js'
import { answerError, strangeAnswer } from './errors.js'
import { isObject, parseJson, textOf, wholeOf } from './json.js'

/** A key as it is stored. */
export interface Pair {
  readonly key: string
  /** Who has it locked; null: nobody. */
  readonly session: string | null
  readonly flags: bigint
  readonly value: string
  readonly createIndex: bigint
  readonly modifyIndex: bigint
  readonly lockIndex: bigint
}

/** One step of a transaction. */
export type Step =
  | {
      readonly verb: 'lock'
      readonly key: string
      readonly session: string
      readonly flags: bigint
      readonly value: string
    }
  | {
      readonly verb: 'unlock'
      readonly key: string
      readonly session: string
      readonly flags: bigint
      readonly value: string
    }
  | {
      readonly verb: 'cas'
      readonly key: string
      readonly index: bigint
      readonly flags: bigint
      readonly value: string
    }
  | { readonly verb: 'delete-cas' | 'check-index'; readonly key: string; readonly index: bigint }
  | { readonly verb: 'check-session'; readonly key: string; readonly session: string }
  | { readonly verb: 'check-not-exists' | 'get' | 'delete'; readonly key: string }

/** All of it was done, with the keys as they are now; or nothing, with what each step that failed had to say. */
export type Outcome =
  | { readonly kind: 'done'; readonly pairs: readonly Pair[] }
  | { readonly kind: 'failed'; readonly reasons: ReadonlyMap<number, string> }

export interface Reading {
  readonly pairs: readonly Pair[]
  readonly index: bigint | null
}

export interface SessionWish {
  readonly ttlSeconds: number
  readonly lockDelayMs: number
}

/** As many steps as a transaction may have. */
export const STEPS_MAX = 64

/** Only the leader answers, and only after it has made sure that it still is one. */
const CONSISTENT = 'consistent'

export class ConsulStore {
  readonly #client: ConsulClient

  constructor(client: ConsulClient) {
    this.#client = client
  }

  /** Rejects where no agent answers. It needs no rights: https://developer.hashicorp.com/consul/api-docs/status#get-raft-leader */
  async reach(): Promise<void> {
    await this.#client.ask({ method: 'GET', path: '/v1/status/leader' })
  }

  async transact(steps: readonly Step[]): Promise<Outcome> {
    const body = `[${steps.map(bodyOf).join(',')}]`
    const answer = await this.#client.ask({ method: 'PUT', path: '/v1/txn', query: CONSISTENT, body })
    const parsed = answer.status === 200 || answer.status === 409 ? parseJson(answer.text) : null
    if (!isObject(parsed)) throw answerError(answer.status, answer.text)
    if (answer.status === 200) return { kind: 'done', pairs: resultsOf(parsed['Results']) }
    const reasons = reasonsOf(parsed['Errors'])
    for (const reason of reasons.values()) if (!isConflict(reason)) throw answerError(answer.status, reason)
    return { kind: 'failed', reasons }
  }

  /** The key; null where there is none. */
  async get(key: string): Promise<{ readonly pair: Pair | null; readonly index: bigint | null }> {
    const { pairs, index } = pairsIn(
      await this.#client.ask({ method: 'GET', path: pathOf(key), query: CONSISTENT }),
    )
    return { pair: pairs.find((pair) => pair.key === key) ?? null, index }
  }

  /** Removes the key if its last change was this one. false: it has changed since. A key that is not there counts as removed. */
  async remove(key: string, index: bigint): Promise<boolean> {
    const answer = await this.#client.ask({ method: 'DELETE', path: pathOf(key), query: `cas=${index}` })
    const isDone = parsedOf(answer)
    if (typeof isDone !== 'boolean') throw strangeAnswer('a yes or no is missing')
    return isDone
  }

  /** Every key that begins with this. */
  async tree(prefix: string): Promise<Reading> {
    const query = `recurse=true&${CONSISTENT}`
    return pairsIn(await this.#client.ask({ method: 'GET', path: pathOf(prefix), query }))
  }

  /** The names of the keys that begin with this. */
  async names(prefix: string): Promise<readonly string[]> {
    const query = `keys=true&${CONSISTENT}`
    const answer = await this.#client.ask({ method: 'GET', path: pathOf(prefix), query })
    if (answer.status === 404) return []
    const parsed = parsedOf(answer)
    if (!Array.isArray(parsed)) throw strangeAnswer('a list of keys is missing')
    return parsed.map(textOf)
  }

  /** Waits until something about the key, or below the prefix, may have changed since `index`. Gives the index to go on from. */
  async changed(
    place: { readonly key: string; readonly isPrefix: boolean },
    index: bigint,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<bigint | null> {
    const query = `index=${index}&wait=${waitMs}ms&${CONSISTENT}${place.isPrefix ? '&keys=true' : ''}`
    // An agent adds up to a sixteenth, so that not all come back at once.
    const blockMs = waitMs + waitMs / 16
    const answer = await this.#client.ask({ method: 'GET', path: pathOf(place.key), query, blockMs, signal })
    if (answer.status !== 200 && answer.status !== 404) throw answerError(answer.status, answer.text)
    return answer.index
  }

  async createSession({ ttlSeconds, lockDelayMs }: SessionWish): Promise<string> {
    const body = JSON.stringify({
      Name: 'holdfast',
      TTL: `${ttlSeconds}s`,
      LockDelay: `${lockDelayMs}ms`,
      // What it has locked goes with it: a key without an owner would stay for good, for each name that was ever used.
      Behavior: 'delete',
      // No health check ends it, `serfHealth` least of all: an agent that is slow to answer its peers would free locks
      // whose holders live. Older versions know only the first of the two.
      Checks: [],
      NodeChecks: [],
    })
    const parsed = parsedOf(await this.#client.ask({ method: 'PUT', path: '/v1/session/create', body }))
    const id = isObject(parsed) ? textOf(parsed['ID']) : ''
    if (!/^[\w-]{1,64}$/.test(id)) throw strangeAnswer('a session is missing')
    return id
  }

  /** false: there is no such session any more. */
  async renewSession(id: string): Promise<boolean> {
    const answer = await this.#client.ask({ method: 'PUT', path: `/v1/session/renew/${id}` })
    if (answer.status === 404) return false
    const parsed = parsedOf(answer)
    if (!Array.isArray(parsed) || !isObject(parsed[0]) || parsed[0]['ID'] !== id) {
      throw strangeAnswer('a session is missing')
    }
    return true
  }

  async destroySession(id: string): Promise<void> {
    const answer = await this.#client.ask({ method: 'PUT', path: `/v1/session/destroy/${id}` })
    if (answer.status !== 200) throw answerError(answer.status, answer.text)
  }
}

/**
 * What a step says that was refused for how things stand. Anything else, such as a right that is missing, must not be taken
 * for somebody else's lock.
 */
function isConflict(reason: string): boolean {
  return /exists?\b|is already held|isn't held|lock delay|invalid session|session check|check session|index/i.test(
    reason,
  )
}

/** A slash separates parts, and stays one; everything else is escaped, so that no name becomes a query or a fragment. */
function pathOf(key: string): string {
  return `/v1/kv/${key.split('/').map(encodeURIComponent).join('/')}`
}

function parsedOf(answer: ConsulAnswer): unknown {
  if (answer.status !== 200) throw answerError(answer.status, answer.text)
  return parseJson(answer.text)
}

function pairsIn(answer: ConsulAnswer): Reading {
  if (answer.status === 404) return { pairs: [], index: answer.index }
  const parsed = parsedOf(answer)
  if (!Array.isArray(parsed)) throw strangeAnswer('a list of keys is missing')
  return { pairs: parsed.map(pairOf), index: answer.index }
}

function pairOf(value: unknown): Pair {
  if (!isObject(value)) throw strangeAnswer('a key is missing')
  const { Key, Session, Flags, Value, CreateIndex, ModifyIndex, LockIndex } = value
  return {
    key: textOf(Key),
    session: typeof Session === 'string' && Session !== '' ? Session : null,
    flags: wholeOf(Flags),
    value: typeof Value === 'string' ? Buffer.from(Value, 'base64').toString('utf8') : '',
    createIndex: wholeOf(CreateIndex),
    modifyIndex: wholeOf(ModifyIndex),
    lockIndex: wholeOf(LockIndex),
  }
}

function resultsOf(results: unknown): readonly Pair[] {
  if (results === null || results === undefined) return []
  if (!Array.isArray(results)) throw strangeAnswer('the results are missing')
  return results.map((result) => pairOf(isObject(result) ? result['KV'] : null))
}

function reasonsOf(errors: unknown): ReadonlyMap<number, string> {
  if (!Array.isArray(errors) || errors.length === 0) throw strangeAnswer('the errors are missing')
  return new Map(
    errors.map((error) => {
      if (!isObject(error)) throw strangeAnswer('an error is missing')
      return [Number(wholeOf(error['OpIndex'])), textOf(error['What'])]
    }),
  )
}

/** Written by hand, because flags are longer than a number of JavaScript. */
function bodyOf(step: Step): string {
  const fields = [`"Verb":"${step.verb}"`, `"Key":${JSON.stringify(step.key)}`]
  if ('session' in step) fields.push(`"Session":${JSON.stringify(step.session)}`)
  if ('index' in step) fields.push(`"Index":${step.index}`)
  if ('flags' in step) fields.push(`"Flags":${step.flags}`)
  if ('value' in step) fields.push(`"Value":"${Buffer.from(step.value).toString('base64')}"`)
  return `{"KV":{${fields.join(',')}}}`
}
