/**
 * The keys that `set-nx.lua` works on, at one server or in one cluster. It serves the recipe `set-nx`, and each node of
 * `redlock`, so there is one piece of code for what becomes of a key.
 */

import type { Claim, HolderNote, ResourceView } from '../../core/backend.js'
import { refOf } from '../../core/names.js'
import { NOBODY_KNOWN, readWho, writeWho } from '../shared/who.js'
import { renewGraceMs, settledSoon } from './clock.js'
import { hungNode, redisError, stepError, strangeAnswer } from './errors.js'
import type { RedisLink } from './link.js'
import { scanNames } from './scan.js'
import { Script } from './script.js'
import { source } from './set-nx.lua'
import { togetherOn } from './slot.js'

/** What is in a key. */
export interface Found {
  /** Equal for two keys if one claim, or one lock of another program, is in both. It is a secret. */
  readonly identity: string
  /** Of the exact value, for a deletion of nothing else. */
  readonly digest: string
  /** Whether a program of Holdfast wrote it. */
  readonly isOurs: boolean
  readonly holder: HolderNote
  readonly fence: bigint | null
  readonly ageMs: number
  /** null: it never expires. */
  readonly remainingMs: number | null
}

export type Take =
  | { readonly kind: 'taken'; readonly fence: bigint; readonly leaseMs: number }
  | { readonly kind: 'held'; readonly by: Found }

/** Which process answered, and how long it has run; null where this user may not ask. */
export interface ServerNote {
  readonly runId: string
  readonly upMs: number
}

export interface Vote {
  readonly take: Take
  readonly server: ServerNote | null
}

export interface NxRenewal {
  readonly claim: Claim
  readonly round: string
  /** null: any. */
  readonly fence: bigint | null
  readonly leaseMs: number
}

interface Step {
  readonly resource: string
  readonly args: readonly string[]
}

const SCRIPT = new Script(source)

/** The round of a recipe that has none. */
export const NO_ROUND = ''
const ANY_ROUND = '*'

/** Holders that are not ours say nothing that may be shown. */
export const FOREIGN: HolderNote = {
  owner: { host: 'unknown', pid: 0, client: 'foreign' },
  note: 'held by another program',
}

export class NxStore {
  readonly #link: RedisLink
  readonly #prefix: string

  constructor(link: RedisLink, prefix: string) {
    this.#link = link
    this.#prefix = prefix
  }

  async take(claim: Claim, leaseMs: number): Promise<Take> {
    return readTake(await this.#one(attemptStep(claim, leaseMs, NO_ROUND)))
  }

  /** The same for one round of votes, with a note of which server it was. */
  async vote(claim: Claim, leaseMs: number, round: string): Promise<Vote> {
    const step = attemptStep(claim, leaseMs, round)
    const [answer, server] = await this.#call([step], true)
    return { take: readTake(checked(answer as string, step)), server: readServer(server as string) }
  }

  /** Asks for nothing but an answer, and names no key, because a user may be kept to some of them. */
  async greet(): Promise<ServerNote | null> {
    const [server] = await this.#call([], true)
    return readServer(server as string)
  }

  /** One outcome for each: true where it was renewed, false where it is not there. Rejects if nothing is known of any. */
  async renew(renewals: readonly NxRenewal[]): Promise<readonly PromiseSettledResult<boolean>[]> {
    const indices = [...renewals.keys()]
    const stepOf = (index: number): Step => renewStep(renewals[index] as NxRenewal)
    const groups = [...togetherOn(this.#link, indices, (index) => this.#prefix + stepOf(index).resource)]
    const calls = groups.map((group) => this.#call(group.map(stepOf)))
    // One node of a cluster that hangs must not keep back what the others have said.
    const graceMs = renewGraceMs(renewals.map(({ leaseMs }) => leaseMs))
    const answered = await settledSoon(calls, graceMs, hungNode)
    const outcomes: PromiseSettledResult<boolean>[] = []
    for (const [at, group] of groups.entries()) {
      const answers = answered[at] as PromiseSettledResult<readonly string[]>
      for (const [nth, index] of group.entries()) {
        outcomes[index] =
          answers.status === 'rejected' ? answers : renewedIn(answers.value[nth] as string, stepOf(index))
      }
    }
    const first = outcomes[0]
    const isBlank = outcomes.every(({ status }) => status === 'rejected')
    if (first?.status === 'rejected' && isBlank) throw first.reason
    return outcomes
  }

  /** Without a round, whatever the claim has. */
  async release(claim: Claim, round = ANY_ROUND): Promise<boolean> {
    return (await this.#one({ resource: claim.resource, args: ['x', claim.id, round] })) === '1'
  }

  async look(resource: string): Promise<Found | null> {
    return readFound(await this.#one(lookStep(resource)))
  }

  /** For a listing: what is no lock is nothing. */
  async lookAll(resources: readonly string[]): Promise<readonly (Found | null)[]> {
    const found = new Map<string, Found | null>()
    const look = async (group: readonly string[]): Promise<void> => {
      const answers = await this.#call(group.map(lookStep))
      for (const [nth, resource] of group.entries()) {
        const answer = answers[nth] as string
        found.set(resource, answer.startsWith(FAILED) ? null : readFound(answer))
      }
    }
    await Promise.all([...togetherOn(this.#link, resources, (resource) => this.#prefix + resource)].map(look))
    return resources.map((resource) => found.get(resource) ?? null)
  }

  /** Deletes exactly what was seen, or nothing. */
  async remove(resource: string, { digest }: Found): Promise<boolean> {
    return (await this.#one({ resource, args: ['d', digest] })) === '1'
  }

  names(prefix: string): Promise<readonly string[]> {
    return scanNames(this.#link, this.#prefix, prefix, ['string'])
  }

  close(): Promise<void> {
    return this.#link.close()
  }

  async #one(step: Step): Promise<string> {
    const [answer] = await this.#call([step])
    return checked(answer as string, step)
  }

  /** One call of the script. Gives one answer for each step, and one more where the server shall say who it is. */
  async #call(steps: readonly Step[], tell = false): Promise<readonly string[]> {
    const keys = steps.map(({ resource }) => this.#prefix + resource)
    const args = [tell ? '1' : '0', ...steps.flatMap((step) => step.args)]
    try {
      const answers = await SCRIPT.run((command) => this.#link.send(keys[0] ?? '', command), keys, args)
      if (!Array.isArray(answers) || answers.length !== steps.length + (tell ? 1 : 0))
        throw strangeAnswer(answers)
      return answers.map(String)
    } catch (error) {
      throw redisError(error, steps.length === 1 ? steps[0]?.resource : null)
    }
  }
}

/** What people may see of a key. */
export function viewOf(resource: string, found: Found | null): ResourceView {
  if (found === null) return { resource, shape: null, holders: [], waiters: [] }
  const { identity, holder, fence, ageMs, remainingMs } = found
  const view = { ref: refOf(identity), ...holder, weight: 1, fence, ageMs, remainingMs }
  return { resource, shape: { kind: 'mutex', limit: 1 }, holders: [view], waiters: [] }
}

function attemptStep(claim: Claim, leaseMs: number, round: string): Step {
  const { id, resource, ttlMs, owner, note } = claim
  return { resource, args: ['a', id, round, String(ttlMs), String(leaseMs), writeWho(owner, note)] }
}

function renewStep({ claim, round, fence, leaseMs }: NxRenewal): Step {
  const args = ['r', claim.id, round, fence === null ? '-' : String(fence), String(Math.ceil(leaseMs))]
  return { resource: claim.resource, args }
}

function lookStep(resource: string): Step {
  return { resource, args: ['v'] }
}

/** What the answer of a step begins with that met an error. */
const FAILED = '! '

function checked(answer: string, { resource }: Step): string {
  if (!answer.startsWith(FAILED)) return answer
  throw stepError(answer.slice(FAILED.length), resource)
}

function renewedIn(answer: string, { resource }: Step): PromiseSettledResult<boolean> {
  if (answer === '1' || answer === '0') return { status: 'fulfilled', value: answer === '1' }
  const isError = answer.startsWith(FAILED)
  return rejected(isError ? stepError(answer.slice(FAILED.length), resource) : strangeAnswer(answer))
}

function rejected(reason: unknown): PromiseRejectedResult {
  return { status: 'rejected', reason }
}

function readTake(answer: string): Take {
  const granted = /^g (\d+) (\d+)$/.exec(answer)
  if (granted !== null) {
    return { kind: 'taken', fence: BigInt(granted[1] as string), leaseMs: Number(granted[2]) }
  }
  const by = answer.startsWith('n ') ? readFound(answer.slice(2)) : null
  if (by === null) throw strangeAnswer(answer)
  return { kind: 'held', by }
}

function readFound(answer: string): Found | null {
  if (answer === '') return null
  const parts = /^(\d+) (-|\d+) ([0-9a-f]{40}) (?:([^\s:]+)(?::\d+)? (\d+) (\[.*))?$/s.exec(answer)
  if (parts === null) throw strangeAnswer(answer)
  const [, now, left, digest, id, fence, who] = parts
  const remainingMs = left === '-' ? null : Number(left)
  if (id === undefined || fence === undefined || who === undefined) {
    const identity = digest as string
    return { identity, digest: identity, isOurs: false, holder: FOREIGN, fence: null, ageMs: 0, remainingMs }
  }
  return {
    identity: id,
    digest: digest as string,
    isOurs: true,
    holder: readWho(who) ?? NOBODY_KNOWN,
    fence: BigInt(fence),
    ageMs: Math.max(0, (Number(now) - Number(fence)) / 1_000),
    remainingMs,
  }
}

function readServer(answer: string): ServerNote | null {
  const [runId, upSeconds] = answer.split(' ')
  return runId === undefined || upSeconds === undefined ? null : { runId, upMs: Number(upSeconds) * 1_000 }
}
