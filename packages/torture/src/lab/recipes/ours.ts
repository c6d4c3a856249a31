import type { ClientOptions, Hold, Locks } from 'holdfast'
import type { LabAcquireOptions, LabHold, LabLock, LabWorld, OpenLock } from '../lock.js'

/** What is protected, for cases that write: it gets the hold, whose fence it may check. */
export interface Protected {
  read(name: string, hold: LabHold | null): Promise<readonly number[]>
  write(name: string, values: readonly number[], hold: LabHold | null): Promise<void>
  close(): Promise<void>
}

export interface OursOptions {
  /** Options of the store, as they stand behind the question mark of the URL, such as `waitReplicas=1`. */
  readonly query?: string
  readonly client?: ClientOptions
  /** Where the locks are, if it is not where the schedule says. */
  readonly url?: (world: LabWorld) => string
  readonly resource?: (world: LabWorld) => Promise<Protected> | Protected
}

/** A mutex of the library, as it is meant to be used. */
export function ours({ query = '', client = {}, resource, url: urlOf }: OursOptions = {}): OpenLock {
  return async (world) => {
    const { connect } = await world.library()
    const base = urlOf?.(world) ?? world.url
    const url = query === '' ? base : `${base}${base.includes('?') ? '&' : '?'}${query}`
    const locks = await connect(url, client)
    return new OurLock(locks, await resource?.(world))
  }
}

export class OurLock implements LabLock {
  readonly #locks: Locks
  readonly #resource: Protected | undefined

  constructor(locks: Locks, resource?: Protected) {
    this.#locks = locks
    this.#resource = resource
  }

  async acquire(name: string, options: LabAcquireOptions): Promise<LabHold | null> {
    try {
      return new OurHold(await this.#locks.mutex(name).acquire(options))
    } catch (error) {
      if (isTimeout(error)) return null
      throw error
    }
  }

  async read(name: string, hold: LabHold | null): Promise<readonly number[]> {
    return await this.#protected().read(name, hold)
  }

  async write(name: string, values: readonly number[], hold: LabHold | null): Promise<void> {
    await this.#protected().write(name, values, hold)
  }

  async close(): Promise<void> {
    await this.#locks.close()
    await this.#resource?.close()
  }

  #protected(): Protected {
    if (this.#resource === undefined) throw new Error('This case protects nothing.')
    return this.#resource
  }
}

/** Told by its code, because an error of another build of the library is of another class. */
function isTimeout(error: unknown): boolean {
  return error instanceof Error && Reflect.get(error, 'code') === 'ACQUIRE_TIMEOUT'
}

/** A hold of the library, as schedules see it. */
export class OurHold implements LabHold {
  readonly #hold: Hold
  readonly signal: AbortSignal

  constructor(hold: Hold) {
    this.#hold = hold
    this.signal = hold.signal
    try {
      this.fence = hold.fence
    } catch {
      // The store mints none.
    }
  }

  readonly fence?: bigint

  deadline(): number {
    return this.#hold.deadline
  }

  assertHeld(): void {
    this.#hold.assertHeld()
  }

  async extend(): Promise<void> {
    await this.#hold.extend()
  }

  async release(): Promise<'released' | 'gone'> {
    const outcome = await this.#hold.release()
    if (outcome === 'unconfirmed') throw new Error('the store has not confirmed it')
    return outcome
  }
}
