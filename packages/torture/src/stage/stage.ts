import type { Guarantees } from 'holdfast'

/** What can be done to a run. The same words stand on the command line, in histories and in the report. */
export const FAULTS = [
  'kill',
  'pause',
  'stall',
  'cut',
  'drop-requests',
  'drop-replies',
  'delay',
  'late',
  'duplicate',
  'half-open',
  'server-kill',
  'server-pause',
  'failover',
  'server-swap',
  'failover-clock',
  'reshard',
  'partition',
  'clock',
  'evict',
] as const

export type FaultName = (typeof FAULTS)[number]

/** Random numbers that a seed decides, so that a schedule of faults can be repeated. */
export type Random = () => number

/** A fault that has begun. `end` puts everything right again, and may be called once. */
export interface Ongoing {
  /** What it was done to, such as `proxy:0` or `redis:1`. */
  readonly target: string
  end(): Promise<void>
}

/** One fault that the servers or the network of a stage can have. Those of the workers are the nemesis' own. */
export interface StageFault {
  readonly name: FaultName
  /** How long it lasts, at least and at most. */
  readonly lastsMs: readonly [number, number]
  begin(random: Random): Promise<Ongoing>
}

/** Something that stayed behind in the store after every client had gone. */
export interface Leftover {
  /** Such as `key`, `row`, `znode`, `session`, `connection`. */
  readonly what: string
  readonly name: string
}

/** A real store with one recipe of it, with our relays before it, for one run. */
export interface Stage {
  /** Such as `redis`. */
  readonly store: string
  /** Such as `line`. */
  readonly recipe: string
  /** What workers connect to: it leads through the relays where the client lets us. */
  readonly url: string
  readonly guarantees: Guarantees
  /** The lease that workers ask for: as short as the store is made for, so that faults outlast it. */
  readonly ttlMs: number
  /** How long, at most, what a dead client held stays held. */
  readonly freedWithinMs: number
  /** What workers have to have in their environment, where a fault is done to them and not to a server. */
  readonly env?: Readonly<Record<string, string>>
  readonly faults: readonly StageFault[]
  /** Looks, past the relays, for what is left; only what this stage's workers can have made counts. */
  leftovers(): Promise<readonly Leftover[]>
  /** Ends everything and removes it. May be called twice, and while a fault is on. */
  dispose(): Promise<void>
}

/** What is known of a stage when it is gone. */
export type StageFacts = Pick<Stage, 'store' | 'recipe' | 'guarantees' | 'ttlMs' | 'freedWithinMs'>

/** What may be asked to be staged. */
export interface StageDefinition {
  readonly store: string
  readonly recipe: string
  /** Programs that are missing, in words; null if it can be had. */
  missing(): string | null
  start(): Promise<Stage>
}
