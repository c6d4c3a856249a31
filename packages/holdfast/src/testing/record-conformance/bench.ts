import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import type { Renewal } from '../../core/backend.js'
import type {
  ClaimAnswer,
  ClaimAsk,
  ClaimRef,
  FinishAsk,
  RecordStore,
  RecordTraits,
  RenewAsk,
} from '../../core/records.js'
import { PATIENCE_MS, sleep, until } from '../conformance/waiting.js'

/** Storage that the whole suite shares: cases keep apart by keys that nobody else has. */
export interface OpenedRecords {
  /** A further, independent store object on the same storage, as another process would have it; not opened yet. */
  connect(): Promise<RecordStore>
  /** Ends the storage itself. Every client is closed before. */
  close(): Promise<void>
}

export type Claimed = Extract<ClaimAnswer, { readonly kind: 'claimed' }>

/** What a test knows of a claim of its own. */
export interface OwnClaim extends ClaimRef {
  readonly answer: Claimed
  readonly ask: ClaimAsk
  /** By the clock of this process, from before the claim was sent. */
  readonly sentAt: number
}

/** How much more than asked a lease may last where a store only knows whole seconds. */
const COARSE_MS = 3_000

const PAUSE_MS = 40

/** Two clients of one storage, and what every case does with them. */
export class RecordBench {
  readonly a: RecordStore
  readonly b: RecordStore
  readonly traits: RecordTraits
  readonly #connect: () => Promise<RecordStore>

  constructor(a: RecordStore, b: RecordStore, connect: () => Promise<RecordStore>) {
    this.a = a
    this.b = b
    this.traits = a.traits
    this.#connect = connect
  }

  /** For a lease that shall be seen to end. */
  get shortMs(): number {
    return this.#lease(250)
  }

  /** For a lease that shall be renewed a few times, on a machine that may stall. */
  get keptMs(): number {
    return this.#lease(2_000)
  }

  /** For everything else. */
  get longMs(): number {
    return this.#lease(60_000)
  }

  /** How long to wait for what follows the end of a lease. */
  get patienceMs(): number {
    return 3 * this.keptMs + PATIENCE_MS
  }

  /** One more client, which the case closes itself. */
  async connect(): Promise<RecordStore> {
    const store = await this.#connect()
    await store.open()
    return store
  }

  async connectUnopened(): Promise<RecordStore> {
    return await this.#connect()
  }

  /** Asks until it is so, with a pause each time. Where it does not become so, the error shows the record of the key. */
  async until(check: () => Promise<boolean>, what: string, key: string): Promise<void> {
    const paused = async (): Promise<boolean> => {
      if (await check()) return true
      // Asking all the time would only slow down the cases that run beside this one.
      await sleep(PAUSE_MS)
      return false
    }
    await until(paused, what, { limitMs: this.patienceMs, state: () => this.b.read(key) })
  }

  ask(changes: Partial<ClaimAsk> = {}): ClaimAsk {
    return {
      key: freshKey(),
      owner: freshOwner(),
      fingerprint: fingerprintOf('1'),
      leaseMs: this.longMs,
      retentionMs: 3_600_000,
      takeOver: true,
      onlyIssued: false,
      ...changes,
    }
  }

  /** Claims, and fails where somebody else has it. */
  async claim(changes: Partial<ClaimAsk> = {}, store: RecordStore = this.a): Promise<OwnClaim> {
    const ask = this.ask(changes)
    const sentAt = performance.now()
    const answer = claimedOf(await store.claim(ask))
    return { key: ask.key, owner: ask.owner, fence: answer.fence, answer, ask, sentAt }
  }

  /** What somebody else gets who asks for the same. */
  async rival(
    of: OwnClaim,
    changes: Partial<ClaimAsk> = {},
    store: RecordStore = this.b,
  ): Promise<ClaimAnswer> {
    return await store.claim({ ...of.ask, owner: freshOwner(), ...changes })
  }

  /** A claim whose lease is over and that nobody has taken yet. */
  async abandoned(changes: Partial<ClaimAsk> = {}): Promise<OwnClaim> {
    const own = await this.claim({ leaseMs: this.shortMs, ...changes })
    await this.untilAbandoned(own)
    return own
  }

  async untilAbandoned(own: OwnClaim): Promise<void> {
    const check = async (): Promise<boolean> => {
      const answer = await this.rival(own, { takeOver: false })
      if (answer.kind === 'abandoned') return true
      assert.equal(answer.kind, 'in-progress')
      return false
    }
    await this.until(check, 'the lease ends', own.key)
  }

  /** Somebody else takes it over as soon as the store lets them. */
  async takenOver(own: OwnClaim, changes: Partial<ClaimAsk> = {}): Promise<OwnClaim> {
    const ask = { ...own.ask, owner: freshOwner(), leaseMs: this.longMs, ...changes }
    const answers: OwnClaim[] = []
    const check = async (): Promise<boolean> => {
      const sentAt = performance.now()
      const answer = await this.b.claim(ask)
      if (answer.kind === 'claimed') {
        const { key, owner } = ask
        answers.push({ key, owner, fence: answer.fence, answer, ask, sentAt })
        return true
      }
      assert.equal(answer.kind, 'in-progress')
      return false
    }
    await this.until(check, 'the lease ends and another client takes over', own.key)
    const [taken] = answers
    assert(taken !== undefined)
    return taken
  }

  /**
   * Waits until the store itself says that the record is gone, to both: where its clock is coarse, one client can be sure
   * of it a moment before the other.
   */
  async untilGone(key: string): Promise<void> {
    const isGone = async (): Promise<boolean> =>
      (await this.b.read(key)) === null && (await this.a.read(key)) === null
    await this.until(isGone, 'the record is gone after its retention', key)
  }

  end(own: OwnClaim, state: FinishAsk['state'], result: string | null = null): FinishAsk {
    return { ...refOf(own), state, result, retentionMs: own.ask.retentionMs }
  }

  /** The answers to renewals. A store that does not know one of them, which happens under load, is asked again. */
  async answersTo(asks: readonly RenewAsk[], store: RecordStore = this.a): Promise<readonly Renewal[]> {
    const endsAt = performance.now() + this.patienceMs
    let answers = await store.renew(asks)
    while (answers.includes('unknown') && performance.now() < endsAt) {
      await sleep(PAUSE_MS)
      answers = await store.renew(asks)
    }
    return answers
  }

  /** Whether a renewal says that the claim is alive. */
  async isKept(own: OwnClaim, leaseMs: number, store: RecordStore = this.a): Promise<boolean> {
    const [answer] = await this.answersTo([this.renewal(own, leaseMs)], store)
    assert(
      answer === 'renewed' || answer === 'held' || answer === 'lost',
      `A renewal was answered with ${answer}.`,
    )
    return answer !== 'lost'
  }

  renewal(own: OwnClaim, leaseMs: number): RenewAsk {
    return { ...refOf(own), leaseMs, retentionMs: own.ask.retentionMs }
  }

  /** A lease of this length is alive, and not longer than it may be. */
  assertLease(leaseMs: number | null, askedMs: number): void {
    assert(leaseMs !== null && leaseMs > 0, 'A lease that has just begun is over.')
    const mostMs = askedMs + COARSE_MS + this.traits.leaseMinMs
    assert(leaseMs <= mostMs, `A lease of ${askedMs} ms is said to last for ${leaseMs} ms.`)
  }

  #lease(wishMs: number): number {
    const { leaseMinMs, leaseMaxMs } = this.traits
    return Math.min(Math.max(wishMs, leaseMinMs), leaseMaxMs)
  }
}

/** Just what names the claim, as a process would keep it. */
export function refOf({ key, owner, fence }: ClaimRef): ClaimRef {
  return { key, owner, fence }
}

export function freshKey(): string {
  return randomBytes(32).toString('hex')
}

export function freshOwner(): string {
  return randomBytes(16).toString('hex')
}

export function fingerprintOf(digit: string, version = 'v1'): string {
  return `${version}:${digit.repeat(64)}`
}

export function claimedOf(answer: ClaimAnswer): Claimed {
  if (answer.kind === 'claimed') return answer
  throw new assert.AssertionError({ message: `Expected a claim, got ${answer.kind}.` })
}
