/** Records of idempotency over the HTTP interface of the lock service, in whatever store it has. */

import type { Renewal } from '../../core/backend.js'
import { ClosedError, UnsupportedError } from '../../core/errors.js'
import type {
  ClaimAnswer,
  ClaimAsk,
  ClaimRef,
  FinishAnswer,
  FinishAsk,
  ProgressAsk,
  RecordStore,
  RecordTraits,
  RecordView,
  RenewAsk,
  SpendAnswer,
  SpendAsk,
} from '../../core/records.js'
import { readRenewals } from './answers.js'
import { clientFrom, type RemoteOptions } from './backend.js'
import { always, type ServiceAnswer, type ServiceClient } from './client.js'
import { strangeAnswer } from './errors.js'
import type { Fields } from './json.js'

/** The service takes so many in one request. */
const RENEWALS_MAX = 128
const STATES = ['issued', 'in-progress', 'completed', 'failed', 'released'] as const

/** Records over a client of their own. The arguments are those of `remoteBackend`. */
export function remoteRecords(options: RemoteOptions): RecordStore {
  return recordsOver(clientFrom(options))
}

/** The same over whatever leads to the service. `close` ends the client. */
export function recordsOver(client: ServiceClient): RecordStore {
  return new RemoteRecords(client)
}

const never = (): boolean => false

class RemoteRecords implements RecordStore {
  readonly name = 'http'
  readonly #client: ServiceClient
  #traits: RecordTraits | null = null
  #isOpen = false

  constructor(client: ServiceClient) {
    this.#client = client
  }

  get traits(): RecordTraits {
    if (this.#traits === null) throw new ClosedError({ backend: 'http' })
    return this.#traits
  }

  async open(): Promise<void> {
    const answer = await this.#client.ask({ method: 'GET', path: '/v1/store', mayRepeat: always })
    const records = answer.fields.fieldsOrNull('records')
    if (records === null) {
      throw new UnsupportedError('The store of the lock service keeps no records.', { backend: 'http' })
    }
    this.#traits = readTraits(records)
    this.#isOpen = true
  }

  async claim({ key, ...rest }: ClaimAsk): Promise<ClaimAnswer> {
    return readClaimed(await this.#post('claim', { record: key, ...rest }))
  }

  async renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    const parts: Promise<readonly Renewal[]>[] = []
    for (let at = 0; at < asks.length; at += RENEWALS_MAX) {
      parts.push(this.#renew(asks.slice(at, at + RENEWALS_MAX)))
    }
    return (await Promise.all(parts)).flat()
  }

  async #renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    const claims = asks.map(({ leaseMs, retentionMs, ...claim }) => ({
      ...refOf(claim),
      leaseMs: Math.ceil(leaseMs),
      retentionMs,
    }))
    return readRenewals(await this.#post('renew', { claims }), asks.length)
  }

  async finish({ state, result, retentionMs, ...claim }: FinishAsk): Promise<FinishAnswer> {
    return readFinish(await this.#post('finish', { ...refOf(claim), state, result, retentionMs }))
  }

  async save({ progress, ...claim }: ProgressAsk): Promise<FinishAnswer> {
    return readFinish(await this.#post('save', { ...refOf(claim), progress }))
  }

  async read(key: string): Promise<RecordView | null> {
    const fields = okFields(await this.#post('read', { record: key })).fieldsOrNull('record')
    return fields === null ? null : readRecord(fields)
  }

  async issue(key: string, retentionMs: number): Promise<boolean> {
    return okFields(await this.#once('issue', { record: key, retentionMs })).flag('issued')
  }

  async spend({ key, count }: SpendAsk): Promise<SpendAnswer> {
    const fields = okFields(await this.#once('spend', { record: key, count }))
    return {
      kind: fields.oneOf('kind', ['spent', 'used', 'missing'] as const),
      uses: fields.integer('uses', 0),
    }
  }

  async forget(key: string): Promise<boolean> {
    return okFields(await this.#once('forget', { record: key })).flag('forgotten')
  }

  async close(): Promise<void> {
    this.#isOpen = false
    this.#client.close()
  }

  #post(what: string, body: object): Promise<ServiceAnswer> {
    return this.#ask(what, body, always)
  }

  /** Asked twice, these would answer the second time as if somebody else had been there. */
  #once(what: string, body: object): Promise<ServiceAnswer> {
    return this.#ask(what, body, never)
  }

  async #ask(what: string, body: object, mayRepeat: () => boolean): Promise<ServiceAnswer> {
    if (!this.#isOpen) throw new ClosedError({ backend: 'http' })
    return await this.#client.ask({ method: 'POST', path: `/v1/records/${what}`, body, mayRepeat })
  }
}

function refOf({ key, owner, fence }: ClaimRef): {
  readonly record: string
  readonly owner: string
  readonly fence: string
} {
  return { record: key, owner, fence: String(fence) }
}

function okFields({ code, fields }: ServiceAnswer): Fields {
  if (code !== 'OK') throw strangeAnswer('it refuses what cannot be refused')
  return fields
}

function readTraits(fields: Fields): RecordTraits {
  return {
    keeps: fields.oneOf('keeps', ['durable', 'volatile'] as const),
    fencing: fields.oneOf('fencing', ['strict', 'best-effort'] as const),
    bytesMax: fields.integer('bytesMax', 1),
    leaseMinMs: fields.integer('leaseMinMs', 1),
    leaseMaxMs: fields.integer('leaseMaxMs', 1),
    retentionMaxMs: fields.integerOrNull('retentionMaxMs', 1),
  }
}

function readClaimed({ code, fields }: ServiceAnswer): ClaimAnswer {
  switch (code) {
    case 'OK':
      return fields.isNull('claim') ? readSettled(fields) : readOwned(fields)
    case 'IN_PROGRESS':
      return { kind: 'in-progress', ...countOf(fields), leaseMs: fields.number('retryAfterMs') }
    case 'ABANDONED':
      return { kind: 'abandoned', ...countOf(fields) }
    case 'KEY_REUSED':
      return { kind: 'mismatch' }
    case 'NOT_FOUND':
      return { kind: 'missing' }
    default:
      throw strangeAnswer('a claim of a record is not answered like this')
  }
}

function countOf(fields: Fields): { readonly fence: bigint; readonly attempt: number } {
  return { fence: fields.digits('fence'), attempt: fields.integer('attempt', 0) }
}

function readOwned(fields: Fields): ClaimAnswer {
  return {
    kind: 'claimed',
    fence: fields.fields('claim').digits('fence'),
    attempt: fields.integer('attempt', 1),
    tookOver: fields.flag('tookOver'),
    progress: fields.textOrNull('progress'),
    createdAtMs: fields.numberOrNull('createdAtMs'),
    leaseMs: fields.number('leaseMs'),
  }
}

function readSettled(fields: Fields): ClaimAnswer {
  return {
    kind: 'settled',
    state: fields.oneOf('state', ['completed', 'failed'] as const),
    ...countOf(fields),
    result: fields.textOrNull('result'),
    createdAtMs: fields.numberOrNull('createdAtMs'),
  }
}

function readFinish(answer: ServiceAnswer): FinishAnswer {
  return answer.code === 'STALE' ? 'stale' : okFields(answer).oneOf('outcome', ['done'] as const)
}

function readRecord(fields: Fields): RecordView {
  return {
    state: fields.oneOf('state', STATES),
    owner: fields.text('owner'),
    ...countOf(fields),
    tookOver: fields.flag('tookOver'),
    fingerprint: fields.textOrNull('fingerprint'),
    progress: fields.textOrNull('progress'),
    result: fields.textOrNull('result'),
    createdAtMs: fields.numberOrNull('createdAtMs'),
    leaseMs: fields.numberOrNull('leaseMs'),
  }
}
