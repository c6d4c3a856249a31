/** What a schedule of the lab plays on: one small interface that a broken recipe and ours both have. Types only. */

/** What the caller of a recipe has after acquiring. What a recipe cannot tell its caller it leaves out. */
export interface LabHold {
  /** The number that the resource checks, where the recipe has one. */
  readonly fence?: bigint
  /** When the holder has to stop unless it is renewed, on the scale of `performance.now()`, as the recipe believes. */
  deadline?(): number
  /** Aborted as soon as the recipe knows that it is over. */
  readonly signal?: AbortSignal
  /** Throws if the recipe knows, or finds out, that the lock is no longer held. Without it the holder just believes. */
  assertHeld?(): void | Promise<void>
  /** Asks for more time. Throws if there is none to be had. */
  extend?(): Promise<void>
  /** `gone`: there was nothing to give back, as far as the recipe can tell. Throws if nobody knows what it did. */
  release(): Promise<'released' | 'gone'>
}

export interface LabAcquireOptions {
  readonly ttlMs: number
  /** 0 asks once. */
  readonly waitMs: number
}

export interface LabLock {
  /** Null if it was not to be had in time. An error is recorded as a call of which nobody knows what it did. */
  acquire(name: string, options: LabAcquireOptions): Promise<LabHold | null>
  /** Reads what the lock protects: a few numbers, in a place that the recipe chooses. None to begin with. */
  read?(name: string, hold: LabHold | null): Promise<readonly number[]>
  /** Replaces them. Throws if the resource refuses it, and then it certainly had no effect. */
  write?(name: string, values: readonly number[], hold: LabHold | null): Promise<void>
  /** Whatever else a schedule of one case asks of its actors. It is not recorded unless it records it itself. */
  act?(what: string, input: unknown): Promise<unknown>
  close(): Promise<void>
}

/** What a recipe gets from the process that it runs in. */
export interface LabWorld {
  /** Such as `A`. */
  readonly actor: string
  /** What this actor connects to; where the schedule says so, it leads through a relay. */
  readonly url: string
  /** Further settings of the schedule, as they were given to `scene.actor`. */
  readonly settings: Readonly<Record<string, unknown>>
  /**
   * A place in a recipe where a fault can strike, such as `between SETNX and EXPIRE`. Does nothing unless the schedule
   * has armed it.
   */
  point(name: string): Promise<void>
  /** Records an event of this actor, for cases whose calls are none of acquire, release, read and write. */
  record(event: LabEvent): void
  /** The library, or the build of it that HOLDFAST_LAB_LIBRARY names. */
  library(): Promise<typeof import('holdfast')>
}

/** An event without what the actor knows by itself: the time, and who it is. */
export type LabEvent = Omit<import('../history/format.js').HistoryEvent, 't' | 'p'>

/**
 * `kill`: the process kills itself with SIGKILL. `stop`: it stops itself with SIGSTOP until the schedule resumes it.
 * `wait`: only the caller waits, until the schedule passes it on; the process lives.
 */
export type PointAction = 'kill' | 'stop' | 'wait'

export type OpenLock = (world: LabWorld) => Promise<LabLock> | LabLock
