/**
 * Redlock: a lock is what a majority of independent masters have, each by the recipe `set-nx`. It survives the loss of
 * a minority. What it does not survive, no fence can tell, because no two nodes count alike: `fencing` is `none`, and
 * `docs/backends/redlock.md` says what that means.
 *
 * A lock is never repaired: a node that has lost its key is not asked to take it again by a renewal. That would be safe
 * only in a moment in which the others are still a majority, and nobody can know that moment; after it, somebody else
 * may have had the lock, and the repair would hide it.
 */

import type {
  Backend,
  Claim,
  Eviction,
  Guarantees,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  ResourceView,
  Verdict,
} from '../../core/backend.js'
import { OutcomeUnknownError, quote } from '../../core/errors.js'
import { NAME_BYTES_MAX, refOf } from '../../core/names.js'
import { marginMs } from '../../core/timing.js'
import { monotonicMs } from './clock.js'
import { type NxStore, type Vote, viewOf } from './nx-store.js'
import { type Round, Rounds } from './rounds.js'
import { inOrderOfBytes } from './scan.js'
import {
  type Answer,
  type Answers,
  type Ballot,
  commonLease,
  gather,
  haveSpoken,
  majorityOf,
  noQuorum,
  outcomeOf,
  quorumOf,
  renewalOf,
  tooLate,
  twinsIn,
  type VotingNode,
  valuesOf,
} from './votes.js'

/** A shorter lease leaves no time for a vote over a network. */
export const TTL_MIN_MS = 200
const NODE_MS_MIN = 50
const NODE_MS_MAX = 500
/** The start of a client, and what people look at, may take longer than a vote. */
const LOOK_MS = 2_000
const LIST_MS = 5_000
/** The uptime comes in whole seconds, each end of it rounded by itself. */
const UPTIME_GRAIN_MS = 1_000
/** How many resources one step of a listing looks at. */
const LIST_NAMES = 64

export interface RedlockSettings {
  readonly maxTtlMs: number
  /** null: by the ttl. */
  readonly nodeMs: number | null
  readonly restartDelayMs: number
}

type Conclusion =
  | Extract<Verdict, { kind: 'granted' | 'refused' }>
  | { readonly kind: 'failed'; readonly error: unknown }

export class RedlockBackend implements Backend {
  readonly name = 'redlock'
  readonly guarantees: Guarantees
  readonly #nodes: readonly VotingNode[]
  readonly #settings: RedlockSettings
  readonly #quorum: number
  readonly #rounds = new Rounds()

  constructor(nodes: readonly VotingNode[], settings: RedlockSettings) {
    this.#nodes = nodes
    this.#settings = settings
    this.#quorum = quorumOf(nodes.length)
    this.guarantees = {
      keptBy: 'lease',
      safety: 'best-effort',
      fencing: 'none',
      waiting: 'poll',
      fair: false,
      weights: 'none',
      shows: 'claims',
      limitMax: 1,
      clock: 'server-wall',
      ttlMinMs: TTL_MIN_MS,
      ttlMaxMs: settings.maxTtlMs,
      ttlStepMs: 1,
      nameBytesMax: NAME_BYTES_MAX,
    }
  }

  /**
   * Nothing is kept of the sink: nobody tells when a key is deleted. A minority may be away, but all are waited for once,
   * so that a server which is given twice is noticed.
   */
  async open(): Promise<void> {
    const answers = await gather({
      nodes: this.#nodes,
      nodeMs: LOOK_MS,
      ask: (store) => store.greet(),
      isEnough: () => false,
    })
    this.#requireQuorum(answers, null)
    const twins = twinsIn(valuesOf(answers))
    if (twins !== null) throw twins
  }

  async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const startedAt = monotonicMs()
    const round = this.#rounds.begin(claim.id, startedAt, claim.ttlMs)
    const answers = await gather({
      nodes: this.#nodes,
      nodeMs: this.#nodeMs(claim.ttlMs),
      ask: (store) => store.vote(claim, patience.leaseMs, round.number),
      isEnough: (soFar) => {
        const outcome = outcomeOf(this.#ballots(soFar), this.#nodes)
        round.isGranted = outcome === 'granted'
        return outcome !== null
      },
      // A vote that comes after the decision is part of the lock, or it is given back.
      late: (node, { take }) => {
        const isOurs = round.isGranted && !round.isOver
        if (take.kind === 'taken' && !isOurs) node.tell((store) => store.release(claim, round.number))
      },
    })
    const conclusion = this.#conclude(claim, round, answers, startedAt)
    if (conclusion.kind === 'granted') return conclusion
    // Nobody else shall find a part of a lock that nobody has.
    await this.#withdraw(claim, round, answers)
    if (conclusion.kind === 'failed') throw conclusion.error
    return conclusion
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const startedAt = monotonicMs()
    const known = requests.flatMap(({ claim, leaseMs }) => {
      const round = this.#rounds.get(claim.id)
      return round === undefined ? [] : [{ claim, leaseMs, round, fence: null }]
    })
    if (known.length === 0) return requests.map(() => 'lost')
    const renewals = known.map((each) => ({ ...each, round: each.round.number }))
    const answers = await gather({
      nodes: this.#nodes,
      nodeMs: this.#nodeMs(Math.min(...known.map(({ claim }) => claim.ttlMs))),
      ask: (store) => store.renew(renewals),
      isEnough: (soFar) => known.every((_, index) => renewalOf(soFar, index) !== 'unknown'),
    })
    const states = new Map<string, Renewal>()
    for (const [index, { claim, round, leaseMs }] of known.entries()) {
      const state = renewalOf(answers, index)
      states.set(claim.id, state)
      if (state === 'renewed') round.until = Math.max(round.until, startedAt + leaseMs)
      else if (state === 'lost') this.#rounds.end(claim.id, round)
    }
    const isBlank = [...states.values()].every((state) => state === 'unknown')
    if (isBlank) throw this.#undecided(answers, known[0]?.claim)
    return requests.map(({ claim }) => states.get(claim.id) ?? 'lost')
  }

  async release(claim: Claim): Promise<Release> {
    this.#rounds.end(claim.id)
    const answers = await gather({
      nodes: this.#nodes,
      nodeMs: this.#nodeMs(claim.ttlMs),
      ask: (store) => store.release(claim),
      isEnough: (soFar) => haveSpoken(this.#nodes, soFar),
    })
    this.#requireQuorum(answers, claim.resource)
    const removed = valuesOf(answers).filter(Boolean).length
    const unheard = answers.length - valuesOf(answers).length
    return removed > 0 && removed + unheard >= this.#quorum ? 'released' : 'gone'
  }

  async inspect(resource: string): Promise<ResourceView> {
    const answers = await this.#ask(LOOK_MS, (store) => store.look(resource), resource)
    return viewOf(resource, majorityOf(valuesOf(answers), this.#nodes.length))
  }

  async *list(prefix: string): AsyncGenerator<ResourceView, void, void> {
    const seen = new Map<string, number>()
    for (const names of valuesOf(await this.#ask(LIST_MS, (store) => store.names(prefix), null))) {
      for (const name of names) seen.set(name, (seen.get(name) ?? 0) + 1)
    }
    const common = [...seen].flatMap(([name, count]) => (count >= this.#quorum ? [name] : []))
    const names = inOrderOfBytes(common)
    for (let from = 0; from < names.length; from += LIST_NAMES) {
      const some = names.slice(from, from + LIST_NAMES)
      const looks = valuesOf(await this.#ask(LOOK_MS, (store) => store.lookAll(some), null))
      for (const [index, name] of some.entries()) {
        const found = majorityOf(
          looks.map((look) => look[index] ?? null),
          this.#nodes.length,
        )
        if (found?.isOurs === true) yield viewOf(name, found)
      }
    }
  }

  async evict(resource: string, ref: string): Promise<Eviction> {
    const removed = await this.#ask(LOOK_MS, (store) => evictAt(store, resource, ref), resource)
    return valuesOf(removed).some(Boolean) ? 'evicted' : 'gone'
  }

  async close(): Promise<void> {
    this.#rounds.clear()
    await Promise.all(this.#nodes.map((store) => store.close()))
  }

  #conclude(claim: Claim, round: Round, answers: Answers<Vote>, startedAt: number): Conclusion {
    const { resource } = claim
    const twins = twinsIn(valuesOf(answers).map(({ server }) => server))
    if (twins !== null) return { kind: 'failed', error: twins }
    // A release, or a later attempt, has overtaken this one.
    if (round.isOver) return { kind: 'refused', retryAfterMs: null, holder: null }
    const ballots = this.#ballots(answers)
    switch (outcomeOf(ballots, this.#nodes)) {
      case 'granted': {
        const leases = ballots.flatMap((ballot) => (ballot?.kind === 'yes' ? [ballot.leaseMs] : []))
        const leaseMs = commonLease(leases, this.#quorum)
        if (monotonicMs() - startedAt >= leaseMs - marginMs(leaseMs, 0)) {
          return { kind: 'failed', error: tooLate(resource) }
        }
        round.until = startedAt + leaseMs
        return { kind: 'granted', fence: null, leaseMs, weight: claim.weight }
      }
      case 'refused': {
        const found = ballots.map((ballot) => (ballot?.kind === 'no' ? ballot.by : null))
        const holder = majorityOf(found, this.#nodes.length)
        // In a split vote nobody has it, so there is nobody to wait for, and nobody to name.
        return { kind: 'refused', retryAfterMs: holder?.remainingMs ?? null, holder: holder?.holder ?? null }
      }
      case 'failed':
      case null:
        return { kind: 'failed', error: noQuorum(ballots, this.#settings.restartDelayMs, resource) }
    }
  }

  #ballots(answers: Answers<Vote>): readonly (Ballot | null)[] {
    return answers.map((answer) => (answer === null ? null : this.#ballot(answer)))
  }

  #ballot(answer: Answer<Vote>): Ballot {
    if (answer.kind === 'error') return { kind: 'failed', error: answer.error }
    const { take, server } = answer.value
    if (take.kind === 'held') return { kind: 'no', by: take.by }
    const { restartDelayMs } = this.#settings
    if (restartDelayMs > 0) {
      const waitMs = server === null ? null : restartDelayMs + UPTIME_GRAIN_MS - server.upMs
      if (waitMs === null || waitMs > 0) return { kind: 'young', waitMs }
    }
    return { kind: 'yes', leaseMs: take.leaseMs }
  }

  /** Gives back what a round has taken, and waits for the nodes that are there. Those that may have it are told, too. */
  async #withdraw(claim: Claim, round: Round, answers: Answers<Vote>): Promise<void> {
    this.#rounds.end(claim.id, round)
    const giveBack = (store: NxStore): Promise<boolean> => store.release(claim, round.number)
    const took: VotingNode[] = []
    for (const [index, node] of this.#nodes.entries()) {
      const answer = answers[index]
      if (answer?.kind !== 'value') node.tell(giveBack)
      else if (answer.value.take.kind === 'taken') took.push(node)
    }
    if (took.length === 0) return
    await gather({ nodes: took, nodeMs: this.#nodeMs(claim.ttlMs), ask: giveBack, isEnough: () => false })
  }

  async #ask<T>(
    nodeMs: number,
    ask: (store: NxStore) => Promise<T>,
    resource: string | null,
  ): Promise<Answers<T>> {
    const isEnough = (soFar: Answers<T>): boolean => haveSpoken(this.#nodes, soFar)
    const answers = await gather({ nodes: this.#nodes, nodeMs, ask, isEnough })
    this.#requireQuorum(answers, resource)
    return answers
  }

  #requireQuorum(answers: Answers<unknown>, resource: string | null): void {
    if (valuesOf(answers).length < this.#quorum) throw this.#tooFew(answers, resource)
  }

  #tooFew(answers: Answers<unknown>, resource: string | null): unknown {
    const ballots = answers.map((answer): Ballot | null =>
      answer?.kind === 'error' ? { kind: 'failed', error: answer.error } : null,
    )
    return noQuorum(ballots, this.#settings.restartDelayMs, resource)
  }

  #undecided(answers: Answers<unknown>, claim: Claim | undefined): unknown {
    const resource = claim?.resource ?? null
    if (valuesOf(answers).length < this.#quorum) return this.#tooFew(answers, resource)
    return new OutcomeUnknownError(
      `Too few Redis nodes answered to tell whether ${quote(resource)} is still held by a majority.`,
      { resource, backend: 'redlock' },
    )
  }

  #nodeMs(ttlMs: number): number {
    const byTtl = Math.min(Math.max(ttlMs / 10, NODE_MS_MIN), NODE_MS_MAX)
    return Math.min(this.#settings.nodeMs ?? byTtl, ttlMs / 4)
  }
}

/** Deletes what the node has, if it is what the reference means. */
async function evictAt(store: NxStore, resource: string, ref: string): Promise<boolean> {
  const found = await store.look(resource)
  return found !== null && refOf(found.identity) === ref && (await store.remove(resource, found))
}
