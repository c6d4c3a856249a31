/**
 * Lines in items: read, decided by the one rule, and written back only if nobody has changed the item meanwhile. An item
 * that is not there is an empty line.
 */

import type { Shape } from '../../core/backend.js'
import { OutcomeUnknownError, UnsupportedError } from '../../core/errors.js'
import { jitteredPause, monotonicMs } from '../shared/clock.js'
import type { Greeting } from './client.js'
import { foreignValue, lineFull, otherRecipe, tooContended } from './errors.js'
import type { Item, Items, Missed, Version } from './items.js'
import type { Keys } from './keys.js'
import { dated, type Entry, type ReadLine, type Recipe, readLine, recipeOf, writeLine } from './stored.js'
import { lastEnd } from './ticks.js'

/** What to do with a line that was read, and what to answer once it is done. */
export type Step<T> =
  | { readonly kind: 'answer'; readonly answer: T }
  | {
      readonly kind: 'write'
      readonly shape: Shape
      /** All that shall stand in the line, in the count of the line that was read; from 0 where there was none. */
      readonly entries: readonly Entry[]
      readonly answer: T
      /** Whether the only entry is that of whoever writes, so that nobody else's life is touched by its count. */
      readonly isOwn: boolean
    }

/** What was written, for whoever wants to change it again without reading. */
export interface Written {
  readonly version: Version
  /** For how many ticks, where the item counts from when it was written. */
  readonly ticks: number | null
  /** When the entry joined, by this machine's clock. Only ever shown. */
  readonly joinedMs: number
}

const RETRY_MS = 1
const RETRY_MS_MAX = 32
const VALUE_BYTES_MAX = 512 * 1024
const ITEM_BYTES_DEFAULT = 1024 * 1024

export class Lines {
  readonly recipe: Recipe
  readonly items: Items
  readonly keys: Keys
  readonly #changeMs: number
  #valueBytesMax = VALUE_BYTES_MAX

  constructor(recipe: Recipe, items: Items, keys: Keys, changeMs: number) {
    this.recipe = recipe
    this.items = items
    this.keys = keys
    this.#changeMs = changeMs
  }

  /**
   * A server that cannot store an item for its size drops the one that it had under the key. So the line must stay well
   * below what it takes.
   */
  greeted({ settings }: Greeting): void {
    const most = Number(settings.get('item_size_max') ?? ITEM_BYTES_DEFAULT)
    if (Number.isSafeInteger(most)) this.#valueBytesMax = Math.min(VALUE_BYTES_MAX, Math.floor(most / 2))
  }

  async read(resource: string): Promise<ReadLine | null> {
    return this.#lineIn(resource, await this.items.read(this.keys.keyOf(resource)))
  }

  /** The resource that an item names whose key does not tell; null where it names none. */
  async nameStoredIn(key: string): Promise<string | null> {
    const item = await this.items.read(key)
    return item === null ? null : (readLine(this.recipe, item.data, item.left)?.name ?? null)
  }

  /** Reads the line, lets `decide` say what shall become of it, and does that; again where somebody came in between. */
  async change<T>(
    resource: string,
    decide: (line: ReadLine | null) => Step<T>,
  ): Promise<{ readonly answer: T; readonly written: Written | null }> {
    const dueAt = monotonicMs() + this.#changeMs
    const key = this.keys.keyOf(resource)
    let needsDate = false
    for (let tries = 0; ; tries += 1) {
      const { item, date } = needsDate ? await this.items.readDated(key) : await this.#undated(key)
      const found = this.#lineIn(resource, item)
      const line = found !== null && found.date === 0 && date !== null ? dated(found, date) : found
      const step = decide(line)
      if (step.kind === 'answer') return { answer: step.answer, written: null }
      const isUndated = line !== null && line.date === 0
      if (isUndated && step.entries.length > 0 && !step.isOwn) {
        needsDate = true
        continue
      }
      const outcome = await this.#write(resource, item, line, step)
      if (outcome === 'removed') return { answer: step.answer, written: null }
      if (typeof outcome === 'object') return { answer: step.answer, written: outcome }
      if (monotonicMs() >= dueAt) throw tooContended(resource)
      // Those who collided must not collide again, or a crowd would keep itself from getting anywhere.
      await jitteredPause(Math.min(RETRY_MS * 2 ** Math.min(tries, 10), RETRY_MS_MAX))
    }
  }

  /** Makes a line of one entry where there is none, in one step; null where there is something. */
  async begin(resource: string, shape: Shape, entry: Entry): Promise<Written | null> {
    const data = this.#text(resource, shape, [entry], 0)
    const version = await this.items.add(this.keys.keyOf(resource), data, entry.endsAt)
    return version && { version, ticks: entry.endsAt, joinedMs: monotonicMs() }
  }

  /** Writes an item of one entry anew, if it is still as it was written. */
  async rewrite(resource: string, shape: Shape, entry: Entry, before: Written): Promise<Written | Missed> {
    const data = this.#text(resource, shape, [entry], 0)
    const version = await this.items.replace(this.keys.keyOf(resource), data, entry.endsAt, before.version)
    return typeof version === 'string' ? version : { ...before, version, ticks: entry.endsAt }
  }

  async #undated(key: string): Promise<{ readonly item: Item | null; readonly date: null }> {
    return { item: await this.items.read(key), date: null }
  }

  async #write<T>(
    resource: string,
    item: Item | null,
    line: ReadLine | null,
    { shape, entries, isOwn }: Extract<Step<T>, { kind: 'write' }>,
  ): Promise<Written | 'removed' | Missed> {
    const key = this.keys.keyOf(resource)
    const [entry] = entries
    if (item === null || line === null) {
      if (entry === undefined) return 'removed'
      return (await this.begin(resource, shape, entry)) ?? 'changed'
    }
    if (entry === undefined) return await this.items.remove(key, item.version)
    if (isOwn && line.date === 0) return await this.#writeOwn(resource, item, line, shape, entry)
    const end = lastEnd(entries)
    const data = this.#text(resource, shape, entries, end)
    if (data.length > this.#valueBytesMax && data.length > item.data.length) {
      throw lineFull(resource, line.entries.length)
    }
    const version = await this.items.replace(key, data, end, item.version)
    return typeof version === 'string' ? version : { version, ticks: null, joinedMs: 0 }
  }

  /** The count begins again with this writing. */
  async #writeOwn(
    resource: string,
    item: Item,
    { now }: ReadLine,
    shape: Shape,
    entry: Entry,
  ): Promise<Written | Missed> {
    const ticks = entry.endsAt - now
    const rebased = { ...entry, endsAt: ticks, joinedAt: entry.joinedAt - now }
    const joinedMs = monotonicMs() + rebased.joinedAt * 1_000
    return await this.rewrite(resource, shape, rebased, { version: item.version, ticks, joinedMs })
  }

  #text(resource: string, shape: Shape, entries: readonly Entry[], date: number): string {
    const name = this.keys.isReadable(resource) ? null : resource
    return writeLine(this.recipe, { date, shape, entries, name })
  }

  #lineIn(resource: string, item: Item | null): ReadLine | null {
    if (item === null) return null
    const recipe = recipeOf(item.data)
    if (recipe !== null && recipe !== this.recipe) throw otherRecipe(resource, recipe, this.recipe)
    const line = recipe === null ? null : readLine(recipe, item.data, item.left)
    if (line === null || (line.name !== null && line.name !== resource)) throw foreignValue(resource)
    return line
  }
}

/** Whether a request may have been carried out. The client turns every error after sending into this one. */
export function mayHaveHappened(error: unknown): boolean {
  return error instanceof OutcomeUnknownError
}

/** Whether the error means that the item is nobody's line, which a listing passes over. */
export function isForeign(error: unknown): boolean {
  return error instanceof UnsupportedError
}
