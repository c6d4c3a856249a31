/** How votes of independent nodes are gathered, and what they come to. */

import type { Renewal } from '../../core/backend.js'
import {
  BackendUnavailableError,
  type ErrorContext,
  OutcomeUnknownError,
  quote,
  UnsupportedError,
} from '../../core/errors.js'
import { afterMs } from './clock.js'
import type { Found, NxStore, ServerNote } from './nx-store.js'

/** A node that hangs is asked so many times more; beyond that, questions would only pile up in this process. */
const UNANSWERED_MAX = 200

/** One independent master. */
export class VotingNode {
  /** It left the last question that was waited for without an answer, so nobody waits for it until it speaks again. */
  isSilent = false
  readonly #store: NxStore
  #asked = 0
  #heard = 0

  constructor(store: NxStore) {
    this.#store = store
  }

  async ask<T>(question: (store: NxStore) => Promise<T>): Promise<T> {
    if (this.#asked - this.#heard >= UNANSWERED_MAX) throw unheard(UNANSWERED_MAX)
    this.#asked += 1
    const number = this.#asked
    try {
      const answer = await question(this.#store)
      this.isSilent = false
      return answer
    } finally {
      // Answers come in order, so whatever was asked before this is answered, or will never be.
      this.#heard = Math.max(this.#heard, number)
    }
  }

  /** For what is sent in the hope that it arrives; if it does not, the lease ends what it was about. */
  tell(message: (store: NxStore) => Promise<unknown>): void {
    this.ask(message).catch(() => {})
  }

  close(): Promise<void> {
    return this.#store.close()
  }
}

export type Answer<T> =
  | { readonly kind: 'value'; readonly value: T }
  | { readonly kind: 'error'; readonly error: unknown }

/** What has come from each node so far, in the order of the nodes; null where nothing has. */
export type Answers<T> = readonly (Answer<T> | null)[]

/** More than half, so that two majorities always have a node in common. */
export function quorumOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1
}

export interface Question<T> {
  readonly nodes: readonly VotingNode[]
  /** How long a node may take. One that takes longer counts as failed; what it says later goes to `late`. */
  readonly nodeMs: number
  ask(store: NxStore): Promise<T>
  /** Called with every answer. The first true ends the wait, whatever is still missing. */
  isEnough(answers: Answers<T>): boolean
  late?(node: VotingNode, value: T): void
}

/** Asks all nodes at once. Never rejects, and takes at most `nodeMs`. */
export function gather<T>(question: Question<T>): Promise<Answers<T>> {
  const { nodes, nodeMs } = question
  return new Promise((resolve) => {
    const answers: (Answer<T> | null)[] = nodes.map(() => null)
    let isOver = false
    const end = (): void => {
      isOver = true
      cancel()
      resolve(answers)
    }
    const cancel = afterMs(nodeMs, () => {
      for (const [index, node] of nodes.entries()) {
        if (answers[index] !== null) continue
        node.isSilent = true
        answers[index] = { kind: 'error', error: tooSlow(nodeMs) }
      }
      end()
    })
    const note = (index: number, answer: Answer<T>): void => {
      answers[index] = answer
      if (question.isEnough(answers) || answers.every((each) => each !== null)) end()
    }
    for (const [index, node] of nodes.entries()) {
      node
        .ask((store) => question.ask(store))
        .then(
          (value) => {
            if (isOver) question.late?.(node, value)
            else note(index, { kind: 'value', value })
          },
          (error: unknown) => {
            if (!isOver) note(index, { kind: 'error', error })
          },
        )
    }
  })
}

function unheard(questions: number): BackendUnavailableError {
  return new BackendUnavailableError(
    `A Redis node has left the last ${questions} questions without an answer.`,
    {
      backend: 'redlock',
    },
  )
}

function tooSlow(nodeMs: number): OutcomeUnknownError {
  return new OutcomeUnknownError(`A Redis node did not answer within ${Math.ceil(nodeMs)} ms.`, {
    backend: 'redlock',
  })
}

/** For questions whose answers all count: every node that speaks has spoken, and they are a majority. */
export function haveSpoken(nodes: readonly VotingNode[], answers: Answers<unknown>): boolean {
  const missing = nodes.some((node, index) => !node.isSilent && answers[index] === null)
  return !missing && valuesOf(answers).length >= quorumOf(nodes.length)
}

export function valuesOf<T>(answers: Answers<T>): readonly T[] {
  return answers.flatMap((answer) => (answer?.kind === 'value' ? [answer.value] : []))
}

/** What one node said to an attempt, and whether it has a say. */
export type Ballot =
  | { readonly kind: 'yes'; readonly leaseMs: number }
  | { readonly kind: 'no'; readonly by: Found }
  /** It took the key, but runs too short a time to know what it has forgotten. */
  | { readonly kind: 'young'; readonly waitMs: number | null }
  | { readonly kind: 'failed'; readonly error: unknown }

export type Outcome = 'granted' | 'refused' | 'failed'

/**
 * What the ballots come to, as soon as it is certain; null before that. A refusal needs a majority that has spoken: a
 * node that cannot be asked says nothing about who holds. A silent node is not waited for where the others suffice.
 */
export function outcomeOf(ballots: readonly (Ballot | null)[], nodes: readonly VotingNode[]): Outcome | null {
  const quorum = quorumOf(ballots.length)
  const count = (kind: Ballot['kind']): number => ballots.filter((ballot) => ballot?.kind === kind).length
  const yes = count('yes')
  if (yes >= quorum) return 'granted'
  const missing = ballots.filter((ballot, index) => ballot === null && nodes[index]?.isSilent !== true).length
  if (yes + count('no') >= quorum && yes + missing < quorum) return 'refused'
  return count('failed') + count('young') > ballots.length - quorum ? 'failed' : null
}

/** How long a majority of these lasts: the longest lease that enough of them have. */
export function commonLease(leases: readonly number[], quorum: number): number {
  return leases.toSorted((a, b) => b - a)[quorum - 1] ?? 0
}

/** The one that a majority of the nodes have; null where there is none. */
export function majorityOf(found: readonly (Found | null)[], nodes: number): Found | null {
  const quorum = quorumOf(nodes)
  const present = found.filter((each) => each !== null)
  for (const one of present) {
    const same = present.filter(({ identity }) => identity === one.identity)
    if (same.length < quorum) continue
    const lease = commonLease(
      same.map(({ remainingMs }) => remainingMs ?? Number.POSITIVE_INFINITY),
      quorum,
    )
    const remainingMs = lease === Number.POSITIVE_INFINITY ? null : lease
    const ageMs = Math.max(...same.map((each) => each.ageMs))
    // Each node has a number of its own, so none of them is the fence.
    return { ...one, fence: null, remainingMs, ageMs }
  }
  return null
}

/** What has become of one claim of a batch. A node that has no entry of it says so; one that failed says nothing. */
export function renewalOf(
  answers: Answers<readonly PromiseSettledResult<boolean>[]>,
  index: number,
): Renewal {
  const quorum = quorumOf(answers.length)
  const said = valuesOf(answers).map((outcomes) => outcomes[index])
  const count = (value: boolean): number =>
    said.filter((outcome) => outcome?.status === 'fulfilled' && outcome.value === value).length
  if (count(true) >= quorum) return 'renewed'
  return count(false) > answers.length - quorum ? 'lost' : 'unknown'
}

/**
 * What to throw when no majority has a say. An error that waiting does not cure is told as it is, unless enough of the
 * others may come back.
 */
export function noQuorum(
  ballots: readonly (Ballot | null)[],
  restartDelayMs: number,
  resource: string | null,
): unknown {
  const quorum = quorumOf(ballots.length)
  const errors = ballots.flatMap((ballot) => (ballot?.kind === 'failed' ? [ballot.error] : []))
  const final = errors.filter((error) => !isPassing(error))
  if (final.length > ballots.length - quorum) return final[0]
  const young = ballots.flatMap((ballot) => (ballot?.kind === 'young' ? [ballot.waitMs] : []))
  const context: ErrorContext = { resource, backend: 'redlock', cause: errors[0] }
  const have = ballots.length - errors.length - young.length
  const message =
    `At most ${have} of ${ballots.length} Redis nodes have a say${resource === null ? '' : ` about ${quote(resource)}`}, ` +
    `and ${quorum} are needed.${silence(errors.length)}${youth(young, restartDelayMs)}`
  return errors.some((error) => error instanceof OutcomeUnknownError)
    ? new OutcomeUnknownError(message, context)
    : new BackendUnavailableError(message, context)
}

export function isPassing(error: unknown): boolean {
  return error instanceof BackendUnavailableError || error instanceof OutcomeUnknownError
}

function silence(count: number): string {
  return count === 0 ? '' : ` ${count} did not answer as they should.`
}

function youth(waits: readonly (number | null)[], restartDelayMs: number): string {
  const known = waits.filter((wait) => wait !== null)
  const untold = waits.length - known.length
  const restarted =
    known.length === 0
      ? ''
      : ` ${known.length} restarted less than ${seconds(restartDelayMs)} s ago, and may have forgotten locks that are ` +
        `still held: wait ${seconds(Math.max(...known))} s, or set \`restartDelayMs: 0\` if they keep their data.`
  const secretive =
    untold === 0
      ? ''
      : ` ${untold} do not say how long they run: let this user call INFO, or set \`restartDelayMs: 0\`.`
  return restarted + secretive
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1_000)
}

/** Two clients that lead to one server would let it vote twice. */
export function twinsIn(servers: readonly (ServerNote | null)[]): UnsupportedError | null {
  const ids = servers.flatMap((server) => (server === null ? [] : [server.runId]))
  if (new Set(ids).size === ids.length) return null
  return new UnsupportedError(
    'Two of the Redis clients lead to the same server. Redlock needs independent ones.',
    {
      backend: 'redlock',
    },
  )
}

export function tooLate(resource: string): OutcomeUnknownError {
  return new OutcomeUnknownError(
    `A majority of the Redis nodes gave ${quote(resource)}, but so late that the lease was over. It is given back.`,
    { resource, backend: 'redlock' },
  )
}
