/**
 * A history: what the callers of locks saw, one JSON object a line, in one or several files. docs/checking.md tells it
 * to people who write histories with other programs. Types only.
 */

/**
 * Microseconds on a clock that all writers of one history share, such as CLOCK_MONOTONIC of one machine. A call is
 * stamped before it is made and after it has come back, so that windows only ever widen.
 */
export type Micros = number

/** Says what the file is about. It may stand anywhere; a history without one is judged as a set of plain mutexes. */
export interface HeaderLine {
  readonly format: 'holdfast-history/1'
  /** Who wrote the file, such as `w3`. */
  readonly writer?: string
  readonly store?: string
  readonly recipe?: string
  /** What each name is. A name that is not here is a mutex. */
  readonly resources?: Readonly<Record<string, ResourceNote>>
  /** What was promised beyond exclusion; what is not promised is not checked. */
  readonly promises?: Promises
}

export interface ResourceNote {
  readonly kind: 'mutex' | 'semaphore' | 'read-write' | 'register' | 'set' | 'idempotent'
  /** How many permits there are. Default 1. */
  readonly limit?: number
  /** Whether one caller may hold it more than once at a time. */
  readonly reentrant?: boolean
}

export interface Promises {
  /** Of two holds that exclude each other, the later one has the higher fence, and no fence is given twice. */
  readonly fences?: boolean
  /** Waiters are served in the order of their positions in the queue. */
  readonly fair?: boolean
  /** A waiter keeps its position while its process stands still for less than this in all. Default 0. */
  readonly waiterLeaseMicros?: Micros
  /** Callers of one process may pass a lock on among themselves for this long before other processes are served. */
  readonly handOverWithinMicros?: Micros
  /**
   * A lock is lost only because of a fault, a standstill of its process, or an option of the request; and at the most this
   * long after it.
   */
  readonly lossWithinMicros?: Micros
  /** What keeps a hold. A store that keeps leases does not forget them because a connection fails. */
  readonly keptBy?: 'lease' | 'session' | 'connection'
  /** A holder is told this long, at the most, after its `until`, while its event loop runs. */
  readonly abortWithinMicros?: Micros
  /** A wait with nobody holding is not longer than this. */
  readonly servedWithinMicros?: Micros
}

/**
 * `invoke`: a call begins. `ok`: it did what it was asked. `fail`: it certainly had no effect. `info`: nobody knows; it
 * may have had its effect at any time after the call began, or never. `note`: a moment, not a call.
 */
export type EventType = 'invoke' | 'ok' | 'fail' | 'info' | 'note'

/**
 * Calls: `acquire`, `extend`, `release`, `assert` (is it still mine?), `evict` (an operator takes it from whoever holds),
 * `read` and `write` (of a register), `add` (to a set), `execute` (of something idempotent), `issue` (of the key that it
 * is done under: where keys are issued at all, nothing may be done under one that was not).
 *
 * Notes: `queued` (the caller has its place in line), `lost` (the holder could see that it is over), `stall` (the event
 * loop of the writer stood still until now), `fault-begin` and `fault-end` (what was done to whom), `death` (the
 * writer's processes in `p` are dead, killed or crashed), `tripped` (something that must be alone met another).
 */
export type EventName =
  | 'acquire'
  | 'extend'
  | 'release'
  | 'assert'
  | 'evict'
  | 'read'
  | 'write'
  | 'add'
  | 'execute'
  | 'issue'
  | 'queued'
  | 'lost'
  | 'stall'
  | 'fault-begin'
  | 'fault-end'
  | 'death'
  | 'tripped'

export interface HistoryEvent {
  readonly t: Micros
  /** Who: a caller that does one call at a time on each resource, such as `w3.7#2`. What stands before the dot is the process. */
  readonly p: string
  readonly f: EventName
  readonly type: EventType
  /** Which resource. Empty for notes that are about none. */
  readonly k: string
  readonly v?: EventValue
}

/** What each field belongs to is in its comment; all are optional, since other programs know less. */
export interface EventValue {
  /** acquire.invoke: how it is wanted. Default exclusive. */
  readonly mode?: 'exclusive' | 'shared'
  /** acquire.invoke, of a semaphore: how many permits. Default 1. */
  readonly weight?: number
  /** acquire.invoke: how long it may wait; 0 asks once, null waits for ever. */
  readonly waitMs?: number | null
  /** acquire.invoke: the lock stays taken for at least this long, even if it is released sooner. */
  readonly minHoldMs?: number
  /** acquire.invoke: a write hold became this read hold, with nothing in between. */
  readonly downgrade?: boolean
  /** acquire.invoke: the process does not serve its callers from one request in the queue. */
  readonly flow?: boolean
  /** acquire.invoke: the lock is lost after this long, at the request of the caller. */
  readonly maxHoldMs?: number
  /** acquire.invoke: the lease is not renewed, at the request of the caller. */
  readonly fixedLease?: boolean
  /**
   * acquire.ok: when the process first sent the request that the store granted. It is earlier than the call if the caller
   * took over the request of another caller of its process, and later if the caller waited behind one.
   */
  readonly since?: Micros
  /** acquire.ok: the number of that request in its process. Left out where the process had several at the store. */
  readonly request?: number
  /** acquire.ok, write.invoke: the fence, as a decimal text. */
  readonly fence?: string
  /** acquire.ok, extend.ok, assert.ok: when the holder will have to stop unless it is renewed. */
  readonly until?: Micros
  /** *.fail, *.info, lost: the code of the error, or the reason. */
  readonly error?: string
  /** read.ok, write.invoke, add.invoke, execute.ok: the value. read.ok of a set: all of its elements. */
  readonly value?: string | number | null | readonly (string | number)[]
  /** execute.invoke: what was asked for, so that another request under the same key is noticed. */
  readonly input?: string
  /** stall: how long. */
  readonly forMicros?: Micros
  /** fault-begin, fault-end: which fault, such as `kill`, and on what, such as `w3` or `redis:1`. */
  readonly fault?: string
  readonly target?: string
}

export type HistoryLine = HeaderLine | HistoryEvent

export function isHeader(line: HistoryLine): line is HeaderLine {
  return 'format' in line
}

/** The process of a caller: what dies, stops and stalls as one. */
export function processOf(caller: string): string {
  const dot = caller.indexOf('.')
  return dot < 0 ? caller : caller.slice(0, dot)
}
