/**
 * Records on stores that can do one thing in one step: put a value where it was last seen to be another. The rule runs
 * here, and whoever was slower looks again.
 */

import type { Renewal } from '../../core/backend.js'
import { ClosedError, OutcomeUnknownError } from '../../core/errors.js'
import {
  type ClaimDecision,
  certainOf,
  claimed,
  decideClaim,
  decideFinish,
  decideSave,
  decideSpend,
  type Found,
  issued,
  mayRenew,
  viewOf,
} from '../../core/record-rule.js'
import type {
  ClaimAnswer,
  ClaimAsk,
  ClaimRef,
  FinishAnswer,
  FinishAsk,
  IdempotencyRecord,
  ProgressAsk,
  RecordStore,
  RecordTraits,
  RecordView,
  RenewAsk,
  SpendAnswer,
  SpendAsk,
} from '../../core/records.js'

/** What stands at a key. */
export interface Cell<Version> {
  /** null: nothing, or something whose time is over. */
  readonly found: Found | null
  /** What a write must still find there; null: nothing at all. */
  readonly version: Version | null
  /** The store's wall clock; null where it has none. */
  readonly nowMs: number | null
}

/** What shall stand there. */
export interface CellChange {
  /** Without a fence: the store gives it one that is higher than all before. */
  readonly record: Omit<IdempotencyRecord, 'fence'> & { readonly fence: bigint | null }
  /** A number: the owner's lease begins anew with it. `keep`: it stays as it is. `end`: nobody owns it any more. */
  readonly lease: number | 'keep' | 'end'
  /** How long it stays once it has no lease; null: for ever. `keep`: it ends when it would have. */
  readonly retentionMs: number | null | 'keep'
}

export type CellWrite<Version> =
  /**
   * `createdAtMs`: where the store dates a record as it writes it, as it does with the fence. `leaseMs`: what is certain of
   * a lease that began, counted from before the write; left out: all of it.
   */
  | {
      readonly kind: 'written'
      readonly fence: bigint
      readonly createdAtMs?: number
      readonly leaseMs?: number
    }
  /** Something else was there. This is it, read in the same step where the store can do that. */
  | { readonly kind: 'beaten'; readonly cell: Cell<Version> }

export interface Cells<Version> {
  readonly name: string
  readonly traits: RecordTraits
  open(): Promise<void>
  read(key: string): Promise<Cell<Version>>
  /** What a claim of this client has left there, where nothing else is known by now: it saves a look. A write finds out. */
  known?(claim: ClaimRef): Cell<Version> | null
  /** Only if the cell is still of this version. The same change of the same owner that was made already counts as written. */
  write(key: string, version: Version | null, change: CellChange): Promise<CellWrite<Version>>
  /** Extends what the claim holds, which was read just now. `lost`: it is not the claim's any more. */
  renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]>
  remove(key: string): Promise<boolean>
  purge?(max: number): Promise<number>
  close(): Promise<void>
}

/** Each round lost means that somebody else has changed the record meanwhile, so more than a few are hard to imagine. */
const ROUNDS_MAX = 200

export class CellRecords<Version> implements RecordStore {
  readonly #cells: Cells<Version>
  readonly purge?: (max: number) => Promise<number>
  /** The last of those who wait for their turn at a key. */
  readonly #turns = new Map<string, Promise<void>>()
  #isOpen = false

  constructor(cells: Cells<Version>) {
    this.#cells = cells
    if (cells.purge !== undefined) this.purge = async (max) => (await this.#open().purge?.(max)) ?? 0
  }

  get name(): string {
    return this.#cells.name
  }

  get traits(): RecordTraits {
    return this.#cells.traits
  }

  async open(): Promise<void> {
    await this.#cells.open()
    this.#isOpen = true
  }

  /** Nobody was there before, most of the time; so it is tried first, and the answer says what is there instead. */
  async claim(ask: ClaimAsk): Promise<ClaimAnswer> {
    const blank: Cell<Version> = { found: null, version: null, nowMs: null }
    const first = ask.onlyIssued ? await this.#open().read(ask.key) : blank
    return await this.#rounds(ask.key, first, async ({ found, version, nowMs }) => {
      const decision: ClaimDecision = decideClaim(found, ask, nowMs)
      if (decision.kind === 'answer') return { kind: 'done', value: decision.answer }
      const record = { ...decision.record, fence: null }
      const { leaseMs, retentionMs } = ask
      const written = await this.#open().write(ask.key, version, { record, lease: leaseMs, retentionMs })
      if (written.kind === 'beaten') return written
      const { fence, createdAtMs = record.createdAtMs, leaseMs: certainMs = leaseMs } = written
      return { kind: 'done', value: claimed({ ...record, fence, createdAtMs }, certainMs) }
    })
  }

  async renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    return await this.#open().renew(asks)
  }

  async finish(ask: FinishAsk): Promise<FinishAnswer> {
    return await this.#change(ask, ask.retentionMs, 'end', (record) => decideFinish(record, ask))
  }

  async save(ask: ProgressAsk): Promise<FinishAnswer> {
    return await this.#change(ask, 'keep', 'keep', (record) => decideSave(record, ask))
  }

  async read(key: string): Promise<RecordView | null> {
    const { found } = await this.#open().read(key)
    return found === null ? null : viewOf(found)
  }

  async issue(key: string, retentionMs: number): Promise<boolean> {
    const record = { ...issued(null), fence: null }
    return await this.#rounds(
      key,
      { found: null, version: null, nowMs: null },
      async ({ found, version, nowMs }) => {
        if (found !== null) return { kind: 'done', value: false }
        const change: CellChange = { record: { ...record, createdAtMs: nowMs }, lease: 'end', retentionMs }
        const written = await this.#open().write(key, version, change)
        return written.kind === 'beaten' ? written : { kind: 'done', value: true }
      },
    )
  }

  async spend({ key, count }: SpendAsk): Promise<SpendAnswer> {
    return await this.#rounds(key, await this.#open().read(key), async ({ found, version }) => {
      const { answer, record } = decideSpend(found?.record ?? null, count)
      if (record === null) return { kind: 'done', value: answer }
      const written = await this.#open().write(key, version, { record, lease: 'keep', retentionMs: 'keep' })
      return written.kind === 'beaten' ? written : { kind: 'done', value: answer }
    })
  }

  async forget(key: string): Promise<boolean> {
    return await this.#open().remove(key)
  }

  async close(): Promise<void> {
    this.#isOpen = false
    await this.#cells.close()
  }

  async #change(
    claim: ClaimRef,
    retentionMs: number | null | 'keep',
    lease: 'keep' | 'end',
    decide: (record: IdempotencyRecord | null) => IdempotencyRecord | null,
  ): Promise<FinishAnswer> {
    const { key } = claim
    const first = this.#open().known?.(claim) ?? (await this.#open().read(key))
    return await this.#rounds(key, first, async ({ found, version }) => {
      const record = decide(found?.record ?? null)
      if (record === null) return { kind: 'done', value: 'stale' }
      if (record === found?.record) return { kind: 'done', value: 'done' }
      const written = await this.#open().write(key, version, { record, lease, retentionMs })
      return written.kind === 'beaten' ? written : { kind: 'done', value: 'done' }
    })
  }

  async #rounds<T>(
    key: string,
    first: Cell<Version>,
    round: (
      cell: Cell<Version>,
    ) => Promise<{ readonly kind: 'done'; readonly value: T } | CellWrite<Version>>,
  ): Promise<T> {
    let cell = first
    let endTurn: (() => void) | null = null
    try {
      for (let rounds = 0; rounds < ROUNDS_MAX; rounds += 1) {
        const outcome = await round(cell)
        if (outcome.kind === 'done') return outcome.value
        cell = outcome.kind === 'beaten' ? outcome.cell : await this.#open().read(key)
        if (rounds === 0 || endTurn !== null) continue
        const { waited, end } = await this.#turn(key)
        endTurn = end
        if (waited) cell = await this.#open().read(key)
      }
    } finally {
      endTurn?.()
    }
    throw new OutcomeUnknownError(`The record was changed by others ${ROUNDS_MAX} times in a row.`, {
      backend: this.name,
    })
  }

  /**
   * Those of this client who have lost twice take turns from then on. All at once, each of them would beat all the others
   * once, and the store would have to refuse as many writes as there are pairs of them.
   */
  async #turn(key: string): Promise<{ readonly waited: boolean; readonly end: () => void }> {
    const before = this.#turns.get(key)
    let over = (): void => {}
    const mine = new Promise<void>((resolve) => {
      over = resolve
    })
    const last = before === undefined ? mine : before.then(() => mine)
    this.#turns.set(key, last)
    await before
    const end = (): void => {
      over()
      if (this.#turns.get(key) === last) this.#turns.delete(key)
    }
    return { waited: before !== undefined, end }
  }

  #open(): Cells<Version> {
    if (!this.#isOpen) throw new ClosedError({ backend: this.name })
    return this.#cells
  }
}

/** Renewal by the rule alone, for stores that keep the lease in the cell itself. */
export async function renewInCell<Version>(cells: Cells<Version>, ask: RenewAsk): Promise<Renewal> {
  let { found, version } = await cells.read(ask.key)
  for (let rounds = 0; rounds < ROUNDS_MAX; rounds += 1) {
    if (found === null || !mayRenew(found, ask)) return 'lost'
    if (ask.leaseMs <= certainOf(found)) return 'renewed'
    const { retentionMs, leaseMs } = ask
    const written = await cells.write(ask.key, version, { record: found.record, lease: leaseMs, retentionMs })
    if (written.kind === 'written') return 'renewed'
    ;({ found, version } = written.cell)
  }
  return 'unknown'
}
