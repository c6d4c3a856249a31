/** What is asked of a torture run, what it says while it runs, and what comes out of it. Types only. */

import type { Guarantees } from 'holdfast'
import type { Verdict } from '../check/verdict.js'
import type { FaultName, StageDefinition } from '../stage/stage.js'
import type { WorkerHealth } from './health.js'
import type { Breakage } from './protocol.js'

export interface TortureOptions {
  readonly stage: StageDefinition
  readonly seconds: number
  readonly workers: number
  readonly seed: number
  /** Only these faults; null for all that the stage and the workers can have. */
  readonly faults: readonly FaultName[] | null
  /** Where to leave the history; null for a temporary folder. */
  readonly history: string | null
  /** Where to write the report; null for none unless something is wrong. */
  readonly report: string | null
  /** A folder for the report and the history of a run in which something was wrong; null for none. */
  readonly failures: string | null
  /** Put before every name at the store. */
  readonly prefix: string
  /** The command that repeats this run, for the summary and the report. */
  readonly repeat: string
  readonly broken?: Breakage | null
  /** Only these names, such as `mutex-1`, so that all callers meet there. Left out: all that the recipe can have. */
  readonly names?: readonly string[]
}

export type Phase = 'starting' | 'faults' | 'healing' | 'finishing' | 'leftovers' | 'checking'

export interface Progress {
  readonly phase: Phase
  readonly elapsedMs: number
  /** How long it takes until the workers are told to finish; 0 while that is not known. */
  readonly totalMs: number
  readonly workers: number
  readonly acquired: number
  readonly lost: number
  readonly refused: number
  readonly unknown: number
  readonly waiting: number
  /** Such as `pause w3`. */
  readonly active: readonly string[]
  readonly injected: number
}

export interface Percentiles {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

export interface NameSummary {
  readonly name: string
  readonly acquired: number
  readonly refused: number
  readonly lost: number
  readonly unknown: number
  /** How long those waited that got it, in milliseconds; null if nobody got it. */
  readonly waitedMs: Percentiles | null
}

export interface FaultCount {
  readonly name: FaultName
  readonly count: number
}

export interface ProcessHealth {
  readonly process: string
  readonly health: WorkerHealth
}

export interface TortureOutcome {
  readonly store: string
  readonly recipe: string
  readonly guarantees: Guarantees
  readonly seed: number
  readonly seconds: number
  readonly workers: number
  readonly ttlMs: number
  /** How long all of it took. */
  readonly tookMs: number
  readonly faults: readonly FaultCount[]
  readonly names: readonly NameSummary[]
  /** Of the checkers and of the oracles, together. */
  readonly verdict: Verdict
  /** Additions to plain files, and how many were lost by writes that came too late, which no lock can prevent. */
  readonly plainSet: { readonly added: number; readonly unprotectedLosses: number }
  /** Writes that the fenced register accepted and refused. */
  readonly register: { readonly accepted: number; readonly refused: number }
  /** Waits of which the store confirmed a position, and those among them whose order could be judged. */
  readonly queue: { readonly confirmed: number; readonly judged: number }
  /** What each worker kept that lived to the end. */
  readonly health: readonly ProcessHealth[]
  /** Faults that could not be carried out, in words. The run is good all the same, but it was an easier one. */
  readonly trouble: readonly string[]
  readonly repeat: string
  /** Where the history is, if it was kept. */
  readonly history: string | null
  /** Where the report is, if there is one. */
  readonly report: string | null
}
