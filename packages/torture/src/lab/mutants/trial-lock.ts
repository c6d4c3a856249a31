/** What an actor of a trial has: a client of the build of the library that is tried, and whatever else a trial asks for. */

import type { Hold, Locks } from 'holdfast'
import { microsAt } from '../../history/recorder.js'
import type { Acted } from '../case.js'
import type { LabAcquireOptions, LabHold, LabLock, LabWorld } from '../lock.js'
import { OurHold } from '../recipes/ours.js'
import { type Guard, type GuardName, guardFor, type Library } from './guards.js'

/** How the client of an actor is set up. */
export interface TrialSettings {
  /** Begins every name at the store, so that many trials share one server. */
  readonly space: string
  /** false: leases are fixed, and only `extend` makes them longer. */
  readonly renew: boolean
  /** What `extend` asks for; null: the lease that was asked for at first. */
  readonly extendMs: number | null
  /** What the lock protects, and how it looks at fences. */
  readonly guard: GuardName | null
  /** How wrong the wall clock of the whole process is. */
  readonly wallAheadMs: number
}

/** A share of a lock: `write` and `read` of a read-write lock, or permits of a semaphore. */
export type Share =
  | { readonly kind: 'read' | 'write'; readonly name: string }
  | { readonly kind: 'permits'; readonly name: string; readonly limit: number; readonly weight: number }

/** The call holds nothing: others had the lock, or too few servers answered, as when a vote is split. */
const NOT_ACQUIRED: readonly unknown[] = ['ACQUIRE_TIMEOUT', 'BACKEND_UNAVAILABLE']

/** Longer than any trial takes. */
const SHARE_TTL_MS = 30_000
const CONNECT_TRIES = 4

export async function openTrial(world: LabWorld): Promise<LabLock> {
  const settings = world.settings as unknown as TrialSettings
  // Before the library is loaded, so that it never sees the clock jump.
  if (settings.wallAheadMs !== 0) setWallClock(settings.wallAheadMs)
  const library = (await world.library()) as Library
  const locks = await connected(library, world.url)
  const guard = settings.guard === null ? null : await guardFor(settings.guard, library, world)
  return new TrialLock(world, locks, guard)
}

/** A machine with much else to do may be late with a connection; nothing has begun by then that could go wrong by it. */
async function connected(library: Library, url: string): Promise<Locks> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await library.connect(url)
    } catch (error) {
      if (codeOf(error) !== 'BACKEND_UNAVAILABLE' || tries === CONNECT_TRIES) throw error
    }
  }
}

function setWallClock(aheadMs: number): void {
  const now = Date.now.bind(Date)
  Date.now = () => now() + aheadMs
}

class TrialLock implements LabLock {
  readonly #world: LabWorld
  readonly #settings: TrialSettings
  readonly #locks: Locks
  readonly #guard: Guard | null
  #wait: AbortController | null = null

  constructor(world: LabWorld, locks: Locks, guard: Guard | null) {
    this.#world = world
    this.#settings = world.settings as unknown as TrialSettings
    this.#locks = locks
    this.#guard = guard
  }

  async acquire(name: string, options: LabAcquireOptions): Promise<LabHold | null> {
    const wait = new AbortController()
    this.#wait = wait
    const { renew, extendMs } = this.#settings
    try {
      const lock = this.#locks.mutex(this.#nameOf(name))
      return new TrialHold(await lock.acquire({ ...options, renew, signal: wait.signal }), extendMs)
    } catch (error) {
      if (wait.signal.aborted || NOT_ACQUIRED.includes(codeOf(error))) return null
      throw error
    }
  }

  async write(name: string, values: readonly number[], hold: LabHold | null): Promise<void> {
    if (this.#guard === null || hold?.fence === undefined) throw new Error('This trial protects nothing.')
    await this.#guard.write(this.#nameOf(name), values.at(-1) ?? 0, hold.fence)
  }

  async act(what: string, input: unknown): Promise<unknown> {
    switch (what) {
      case 'migrate':
        return await this.#locks.migrate()
      case 'evict':
        return (await this.#locks.evict(this.#nameOf(String(input)), { reason: 'a trial' })).length
      case 'count': {
        const { holders, waiters } = await this.#locks.inspect(this.#nameOf(String(input)))
        return { holders: holders.length, waiters: waiters.length }
      }
      case 'give up':
        return this.#wait?.abort()
      case 'share':
        return await this.#share(input as Share)
      default:
        throw new Error(`No trial can do '${what}'.`)
    }
  }

  async close(): Promise<void> {
    await this.#locks.close()
    await this.#guard?.close()
  }

  /** Asks once for a share, and says whether it was given. It is kept for as long as the trial lasts. */
  async #share(share: Share): Promise<boolean> {
    const { name: k } = share
    const wanted =
      share.kind === 'permits'
        ? { weight: share.weight }
        : { mode: share.kind === 'read' ? ('shared' as const) : ('exclusive' as const) }
    this.#world.record({ f: 'acquire', type: 'invoke', k, v: { waitMs: 0, ...wanted } })
    try {
      const { deadline } = await this.#acquireShare(share)
      this.#world.record({ f: 'acquire', type: 'ok', k, v: { until: microsAt(deadline) } })
      return true
    } catch (error) {
      const code = codeOf(error)
      if (code !== 'ACQUIRE_TIMEOUT') throw error
      this.#world.record({ f: 'acquire', type: 'fail', k, v: { error: code } })
      return false
    }
  }

  async #acquireShare(share: Share): Promise<Hold> {
    const name = this.#nameOf(share.name)
    const options = { waitMs: 0, ttlMs: SHARE_TTL_MS }
    if (share.kind === 'permits') {
      const { weight, limit } = share
      return await this.#locks.semaphore(name, limit).acquire({ ...options, permits: weight })
    }
    const lock = this.#locks.readWrite(name)
    return await (share.kind === 'read' ? lock.read() : lock.write()).acquire(options)
  }

  #nameOf(name: string): string {
    return `${this.#settings.space}-${name}`
  }
}

class TrialHold extends OurHold {
  readonly #hold: Hold
  readonly #extendMs: number | null

  constructor(hold: Hold, extendMs: number | null) {
    super(hold)
    this.#hold = hold
    this.#extendMs = extendMs
  }

  override async extend(): Promise<void> {
    await (this.#extendMs === null ? this.#hold.extend() : this.#hold.extend(this.#extendMs))
  }
}

/** Told by its code, because an error of another build of the library is of another class. */
function codeOf(error: unknown): unknown {
  return error instanceof Error ? Reflect.get(error, 'code') : undefined
}

/** What actors are told in place of the name of a case. */
export const TRIAL_NAME = 'a trial of mutants'

/** Mutant or not, it is opened alike; the process has been started with the build that is meant. */
export const TRIAL: Acted = { open: { broken: openTrial, ours: openTrial } }
