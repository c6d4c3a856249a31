import type { Renewal } from '../../../src/core/backend.js'
import type {
  ClaimAnswer,
  ClaimAsk,
  FinishAnswer,
  FinishAsk,
  ProgressAsk,
  RecordStore,
  RecordTraits,
  RecordView,
  RenewAsk,
  SpendAnswer,
  SpendAsk,
} from '../../../src/core/records.js'

/** What happens around a call to the store: `next` makes it. */
export interface Around {
  readonly claim?: (ask: ClaimAsk, next: () => Promise<ClaimAnswer>) => Promise<ClaimAnswer>
  readonly renew?: (
    asks: readonly RenewAsk[],
    next: () => Promise<readonly Renewal[]>,
  ) => Promise<readonly Renewal[]>
  readonly finish?: (ask: FinishAsk, next: () => Promise<FinishAnswer>) => Promise<FinishAnswer>
  readonly save?: (ask: ProgressAsk, next: () => Promise<FinishAnswer>) => Promise<FinishAnswer>
  readonly read?: (key: string, next: () => Promise<RecordView | null>) => Promise<RecordView | null>
  readonly spend?: (ask: SpendAsk, next: () => Promise<SpendAnswer>) => Promise<SpendAnswer>
}

/** A real store whose calls are noted, and go wrong where a test says so. */
export class RelayRecords implements RecordStore {
  readonly name: string
  readonly calls: string[] = []
  readonly finished: FinishAsk[] = []
  readonly issued: string[] = []
  readonly #inner: RecordStore
  readonly #around: Around
  readonly #changed: Partial<RecordTraits>

  constructor(inner: RecordStore, around: Around = {}, traits: Partial<RecordTraits> = {}) {
    this.name = inner.name
    this.#inner = inner
    this.#around = around
    this.#changed = traits
  }

  get traits(): RecordTraits {
    return { ...this.#inner.traits, ...this.#changed }
  }

  open(): Promise<void> {
    return this.#inner.open()
  }

  claim(ask: ClaimAsk): Promise<ClaimAnswer> {
    this.calls.push('claim')
    const next = (): Promise<ClaimAnswer> => this.#inner.claim(ask)
    return this.#around.claim === undefined ? next() : this.#around.claim(ask, next)
  }

  renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    this.calls.push('renew')
    const next = (): Promise<readonly Renewal[]> => this.#inner.renew(asks)
    return this.#around.renew === undefined ? next() : this.#around.renew(asks, next)
  }

  finish(ask: FinishAsk): Promise<FinishAnswer> {
    this.calls.push('finish')
    this.finished.push(ask)
    const next = (): Promise<FinishAnswer> => this.#inner.finish(ask)
    return this.#around.finish === undefined ? next() : this.#around.finish(ask, next)
  }

  save(ask: ProgressAsk): Promise<FinishAnswer> {
    this.calls.push('save')
    const next = (): Promise<FinishAnswer> => this.#inner.save(ask)
    return this.#around.save === undefined ? next() : this.#around.save(ask, next)
  }

  read(key: string): Promise<RecordView | null> {
    this.calls.push('read')
    const next = (): Promise<RecordView | null> => this.#inner.read(key)
    return this.#around.read === undefined ? next() : this.#around.read(key, next)
  }

  issue(key: string, retentionMs: number): Promise<boolean> {
    this.issued.push(key)
    return this.#inner.issue(key, retentionMs)
  }

  spend(ask: SpendAsk): Promise<SpendAnswer> {
    this.calls.push('spend')
    const next = (): Promise<SpendAnswer> => this.#inner.spend(ask)
    return this.#around.spend === undefined ? next() : this.#around.spend(ask, next)
  }

  forget(key: string): Promise<boolean> {
    return this.#inner.forget(key)
  }

  close(): Promise<void> {
    return this.#inner.close()
  }
}
