/**
 * Records of idempotency in memcached: one item for each, changed by compare-and-set. As with everything in memcached, a
 * record can vanish at any time, and then the work is done again.
 */

import type { Renewal } from '../../core/backend.js'
import { UnsupportedError } from '../../core/errors.js'
import { checkKeys, checkMs } from '../../core/options.js'
import type { ClaimRef, IdempotencyRecord, RecordStore, RecordTraits, RenewAsk } from '../../core/records.js'
import {
  type Cell,
  type CellChange,
  CellRecords,
  type Cells,
  type CellWrite,
  renewInCell,
} from '../shared/cell-records.js'
import { addressIn, type MemcachedOptions, REQUEST_MS } from './backend.js'
import { type MemcachedAddress, MemcachedClient } from './client.js'
import { foreignRecord, recordTooLarge, unanswered } from './errors.js'
import { type Item, Items, type Version } from './items.js'
import { checkPrefix, Keys } from './keys.js'
import { HEAD_BYTES_MAX, type RecordItem, readRecord, writeRecord } from './record-text.js'
import {
  certainMs,
  DATE_MAX,
  latestMs,
  longTicksFor,
  RELATIVE_TICKS_MAX,
  TTL_MAX_MS,
  TTL_MIN_MS,
  ticksFor,
} from './ticks.js'

export interface MemcachedRecordsOptions
  extends Omit<MemcachedOptions, 'recipe' | 'exactPath'>,
    RecordsOptions {}

export interface RecordsOptions {
  /** What the keys begin with. Default `holdfast:idem:`. */
  readonly prefix?: string | undefined
  /** How long the server may take for an answer before the connection is given up. Default 5,000. */
  readonly requestMs?: number | undefined
}

const KEYS: readonly string[] = ['prefix', 'requestMs']
const DEFAULT_PREFIX = 'holdfast:idem:'
const ITEM_BYTES_DEFAULT = 1024 * 1024
/** More than anybody should have a cache keep, and less than what the reader of answers takes. */
const ITEM_BYTES_MAX = 8 * 1024 * 1024
const RETENTION_MAX_MS = 366 * 24 * 3_600_000
/** What is remembered of claims is a help, not a truth: it may be dropped, but it must not grow without end. */
const REMEMBERED_MAX = 10_000
const REMEMBERED_LENGTH_MAX = 4_096
/** A number of a change takes this much room in a fence, below the second in which the server was started. */
const CAS_BITS = 32n

export function memcachedRecords(options: MemcachedRecordsOptions = {}): RecordStore {
  const { address, rest } = addressIn(options, KEYS)
  return recordsAt(address, rest)
}

export function recordsAt(address: MemcachedAddress, options: RecordsOptions): RecordStore {
  checkKeys(options, KEYS)
  const prefix = checkPrefix(options.prefix ?? DEFAULT_PREFIX)
  const requestMs = checkMs(options.requestMs ?? REQUEST_MS, 'requestMs', 1)
  const client = new MemcachedClient(address, { requestMs })
  return new CellRecords(new MemcachedRecords(client, new Keys({ prefix, exactPath: false })))
}

/** What a write must find, and what the item said of its time when it was read. */
interface Seen extends Version {
  readonly endsAt: number
  readonly leaseEndsAt: number
}

interface Remembered {
  readonly owner: string
  readonly fence: bigint
  readonly record: IdempotencyRecord
  readonly seen: Seen
}

class MemcachedRecords implements Cells<Seen> {
  readonly name = 'memcached'
  readonly #client: MemcachedClient
  readonly #items: Items
  readonly #keys: Keys
  readonly #claims = new Map<string, Remembered>()
  #itemBytesMax = usableBytes(ITEM_BYTES_DEFAULT)
  #started: { readonly generation: number; readonly second: bigint } | null = null

  constructor(client: MemcachedClient, keys: Keys) {
    this.#client = client
    this.#items = new Items(client)
    this.#keys = keys
  }

  get traits(): RecordTraits {
    return {
      // The server may drop any item to make room, and forgets all of them when it ends.
      keeps: 'volatile',
      // They grow with every change that the server makes, and with its starts, which a clock that is set back can undo.
      fencing: 'best-effort',
      bytesMax: this.#itemBytesMax - HEAD_BYTES_MAX,
      leaseMinMs: TTL_MIN_MS,
      leaseMaxMs: TTL_MAX_MS,
      retentionMaxMs: RETENTION_MAX_MS,
    }
  }

  async open(): Promise<void> {
    const { settings } = await this.#client.greet()
    this.#itemBytesMax = usableBytes(Number(settings.get('item_size_max') ?? ITEM_BYTES_DEFAULT))
  }

  async close(): Promise<void> {
    this.#claims.clear()
    this.#client.close()
  }

  async read(key: string): Promise<Cell<Seen>> {
    return await this.#cellOf(await this.#items.read(this.#keys.keyOf(key)))
  }

  /** The number of a change means something only to the process of the server that gave it. */
  known({ key, owner, fence }: ClaimRef): Cell<Seen> | null {
    const claim = this.#claims.get(key)
    if (claim === undefined || claim.owner !== owner || claim.fence !== fence) return null
    if (claim.seen.generation !== this.#items.generation) return null
    // What is left of the lease is not known here, and an end, or progress, does not ask for it.
    return { found: { record: claim.record, leaseMs: 0 }, version: claim.seen, nowMs: null }
  }

  async write(key: string, version: Seen | null, change: CellChange): Promise<CellWrite<Seen>> {
    const at = this.#keys.keyOf(key)
    const times = await this.#timesFor(at, version, change)
    if ('kind' in times) return times
    const { record } = change
    const data = writeRecord({ record, ...times })
    if (data.length > this.#itemBytesMax) throw recordTooLarge(data.length, this.#itemBytesMax)
    const written =
      version === null
        ? await this.#add(at, data, times.endsAt)
        : await this.#items.replace(at, data, times.endsAt, version)
    if (written === 'gone' || written === 'changed') return { kind: 'beaten', cell: await this.read(key) }
    if ('cell' in written) return { kind: 'beaten', cell: written.cell }
    const fence = record.fence ?? (await this.#fenceWritten(written))
    this.#remember(key, { ...record, fence }, { ...written, ...times })
    return { kind: 'written', fence }
  }

  /** One that cannot be reached must not cost the others, which were asked over the same connection before it ended. */
  async renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    const outcomes = await Promise.allSettled(asks.map((ask) => renewInCell(this, ask)))
    const failed = outcomes.find((outcome) => outcome.status === 'rejected')
    if (failed !== undefined && outcomes.every(({ status }) => status === 'rejected')) throw failed.reason
    return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : 'unknown'))
  }

  async remove(key: string): Promise<boolean> {
    this.#claims.delete(key)
    const at = this.#keys.keyOf(key)
    for (;;) {
      const item = await this.#items.read(at)
      if (item === null) return false
      recordIn(item)
      const outcome = await this.#items.remove(at, item.version)
      if (outcome !== 'changed') return outcome === 'removed'
    }
  }

  /** Both go out together, so whoever is late hears in the same round trip what is there. */
  async #add(at: string, data: string, endsAt: number): Promise<Version | { readonly cell: Cell<Seen> }> {
    const [version, item] = await Promise.all([this.#items.add(at, data, endsAt), this.#items.read(at)])
    return version ?? { cell: await this.#cellOf(item) }
  }

  /**
   * When the item and the lease shall end. Where both begin anew, they are counted from the writing of the item; the server
   * takes no more than thirty days so. Beyond that, and where an end shall stay where it is, it must be a date, and the
   * item is read once more together with the date of the server.
   */
  async #timesFor(
    at: string,
    version: Seen | null,
    { lease, retentionMs }: CellChange,
  ): Promise<Pick<Seen, 'endsAt' | 'leaseEndsAt'> | CellWrite<Seen>> {
    if (retentionMs === null) throw notForEver()
    if (retentionMs === 'keep') return await this.#keptTimes(at, version)
    const leaseTicks = typeof lease === 'number' ? ticksFor(lease) : 0
    const ticks = leaseTicks + longTicksFor(retentionMs)
    if (ticks <= RELATIVE_TICKS_MAX) return { endsAt: ticks, leaseEndsAt: leaseTicks }
    const { date } = await this.#items.readDated(at)
    const leaseEndsAt = leaseTicks === 0 ? 0 : date + leaseTicks
    return { endsAt: Math.min(date + ticks, DATE_MAX), leaseEndsAt }
  }

  async #keptTimes(
    at: string,
    version: Seen | null,
  ): Promise<Pick<Seen, 'endsAt' | 'leaseEndsAt'> | CellWrite<Seen>> {
    if (version !== null && version.endsAt > RELATIVE_TICKS_MAX) return version
    const { item, date } = await this.#items.readDated(at)
    const isSame = item !== null && version !== null && isSameVersion(item.version, version)
    if (!isSame) return { kind: 'beaten', cell: await this.#cellOf(item) }
    const { endsAt, leaseEndsAt } = version
    const by = date - (endsAt - item.left)
    return { endsAt: endsAt + by, leaseEndsAt: leaseEndsAt === 0 ? 0 : leaseEndsAt + by }
  }

  async #cellOf(item: Item | null): Promise<Cell<Seen>> {
    const nowMs = null
    if (item === null) return { found: null, version: null, nowMs }
    const { record, endsAt, leaseEndsAt } = recordIn(item)
    const version = { ...item.version, endsAt, leaseEndsAt }
    const fence = record.fence ?? (await this.#fenceOf(item.version))
    const ticks = leaseEndsAt - (endsAt - item.left)
    const found = {
      record: { ...record, fence },
      leaseMs: Math.max(0, latestMs(ticks)),
      certainMs: certainMs(ticks),
    }
    return { found, version, nowMs }
  }

  /**
   * The server numbers every change, of whatever item, and begins again when it is started. So the second of its start,
   * and the number below it, are higher for every later claim, also of a record that was dropped meanwhile.
   */
  async #fenceOf({ cas, generation }: Version): Promise<bigint> {
    if (this.#started?.generation !== generation) {
      this.#started = { generation, second: BigInt(await this.#items.startedAt(generation)) }
    }
    return (this.#started.second << CAS_BITS) + BigInt(cas)
  }

  /** The change was made, so an error must not say that nothing was done. */
  async #fenceWritten(version: Version): Promise<bigint> {
    try {
      return await this.#fenceOf(version)
    } catch (error) {
      throw unanswered(error)
    }
  }

  #remember(key: string, record: IdempotencyRecord, seen: Seen): void {
    if (record.state !== 'in-progress' || (record.progress?.length ?? 0) > REMEMBERED_LENGTH_MAX) {
      this.#claims.delete(key)
      return
    }
    if (this.#claims.size >= REMEMBERED_MAX) this.#claims.clear()
    const { owner, fence } = record
    this.#claims.set(key, { owner, fence, record, seen })
  }
}

function recordIn(item: Item): RecordItem {
  const found = readRecord(item.data)
  // Without an end of its own, it is not known what time it is in its count.
  if (found === null || item.left < 0) throw foreignRecord()
  return found
}

function isSameVersion(one: Version, other: Version): boolean {
  return one.cas === other.cas && one.generation === other.generation
}

/** A server that cannot store an item for its size drops the one that it had, so a record stays well below. */
function usableBytes(itemBytes: number): number {
  const most = Number.isSafeInteger(itemBytes) ? itemBytes : ITEM_BYTES_DEFAULT
  return Math.min(ITEM_BYTES_MAX, Math.floor((most * 7) / 8))
}

function notForEver(): UnsupportedError {
  return new UnsupportedError('memcached keeps nothing for ever. Give a `retention`, or use another store.', {
    backend: 'memcached',
  })
}
