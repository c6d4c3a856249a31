/** Steps of one attempt whose results are kept with the record, so that a later attempt goes on where this one stopped. */

import { InvalidInputError } from '../core/errors.js'
import { checkName } from '../core/names.js'
import { checkFunction } from '../core/options.js'
import type { FinishAnswer } from '../core/records.js'
import type { Codec } from './types.js'
import { unreadable } from './values.js'

/** Keeps the results as they are now. It reports what goes wrong, and never rejects. */
export type SaveProgress = (progress: string) => Promise<FinishAnswer | 'failed'>

export class Steps {
  readonly #recordId: string
  readonly #codec: Codec
  readonly #save: SaveProgress
  readonly #onUnstorable: (error: unknown) => void
  /** Encoded results, by name. */
  readonly #done: Map<string, string>
  readonly #begun = new Set<string>()
  #saving: Promise<unknown> = Promise.resolve()
  #text: string

  constructor(
    recordId: string,
    codec: Codec,
    progress: string | null,
    save: SaveProgress,
    onUnstorable: (error: unknown) => void,
  ) {
    this.#recordId = recordId
    this.#codec = codec
    this.#save = save
    this.#onUnstorable = onUnstorable
    this.#done = new Map(readProgress(progress))
    this.#text = progress ?? ''
  }

  /** How much of the record they take. */
  get bytes(): number {
    return Buffer.byteLength(this.#text)
  }

  /** What earlier attempts have done. */
  async known(): Promise<ReadonlyMap<string, unknown>> {
    const known = new Map<string, unknown>()
    for (const [name, text] of this.#done) known.set(name, await this.#codec.decode(text, this.#recordId))
    return known
  }

  /**
   * A result that could not be kept is given back all the same: it is real. The next step's save has it in it, unless it
   * cannot be stored at all. Only a crash right then, or a later failure of the work, would do the step again.
   */
  async run<S>(name: string, run: () => Promise<S> | S): Promise<S> {
    checkName(name, 'name')
    checkFunction(run, 'run')
    if (this.#begun.has(name))
      throw new InvalidInputError('name', 'another one for every step of a run', name)
    this.#begun.add(name)
    const kept = this.#done.get(name)
    if (kept !== undefined) return (await this.#codec.decode(kept, this.#recordId)) as S
    const value = await run()
    let text: string
    try {
      text = await this.#codec.encode(value, this.#recordId)
    } catch (error) {
      this.#onUnstorable(error)
      return value
    }
    this.#done.set(name, text)
    await this.#saveAll()
    return value
  }

  /** One after the other, because each holds all results so far, and an older one must not come last. */
  async #saveAll(): Promise<void> {
    const saved = this.#saving.then(async () => {
      this.#text = JSON.stringify([...this.#done])
      return await this.#save(this.#text)
    })
    this.#saving = saved
    await saved
  }
}

function readProgress(progress: string | null): [string, string][] {
  if (progress === null) return []
  let parsed: unknown
  try {
    parsed = JSON.parse(progress)
  } catch {
    throw unreadable()
  }
  if (Array.isArray(parsed) && parsed.every(isPair)) return parsed
  throw unreadable()
}

function isPair(value: unknown): value is [string, string] {
  return Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === 'string')
}
