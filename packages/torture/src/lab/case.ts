import type { Verdict, Violation, ViolationKind } from '../check/verdict.js'
import type { HistoryLine, Promises, ResourceNote } from '../history/format.js'
import type { OpenLock } from './lock.js'
import type { Scene } from './scene.js'

/** Who plays a schedule: the recipe that is known to be broken, or ours. */
export type Contender = 'broken' | 'ours'

export const CONTENDERS: readonly Contender[] = ['broken', 'ours']

/** One recipe that is known to be broken, with the fault that shows it. */
export interface LabCase {
  /** Such as `setnx-then-expire`; unique, and what is typed on the command line. */
  readonly name: string
  /** One line for people. */
  readonly title: string
  /** What is locked with, such as `redis`; the list is in the order of families. */
  readonly family: string
  /** The stores of holdfast-servers that it needs. The first one is started for each contender, unless `setUp` does it. */
  readonly stores: readonly [string, ...string[]]
  /** How it came about, who wrote it, and why it looks right. A few sentences. */
  readonly story: string
  /** What is done, and what comes of it. A few sentences. */
  readonly fault: string
  /** What the checkers must find in the history of the broken one. */
  readonly expects: ViolationKind
  /** Which of our recipes plays the same schedule, and why it passes. A few sentences. */
  readonly ours: string
  /** What the names of the schedule are; a name that is not here is a mutex. */
  readonly resources?: Readonly<Record<string, ResourceNote>>
  /** What is promised beyond exclusion. The broken one is held to the same promises. */
  readonly promises?: Promises
  /** Starts the servers, when the defaults will not do, and sets `scene.url`. */
  readonly setUp?: (scene: Scene) => Promise<void>
  /**
   * What is seen with ours too, because its guarantees do not exclude it, with the sentence that says so. It is told,
   * and the run still passes; what the case expects can never be here.
   */
  readonly admits?: Readonly<Partial<Record<ViolationKind, string>>>
  /** Opens the recipe inside of an actor. */
  readonly open: Readonly<Record<Contender, OpenLock>>
  /**
   * What happens, written once for both. Where it has to differ, a comment at `scene.contender` says why. It records by
   * what its actors do; it judges nothing.
   */
  readonly schedule: (scene: Scene) => Promise<void>
  /** Finds what the checkers of histories cannot: what was counted at the server, for example. Pure. */
  readonly judge?: (history: readonly HistoryLine[], scene: SceneFacts) => readonly Violation[]
}

/** As much of a case as its actors need. */
export type Acted = Pick<LabCase, 'resources' | 'open'>

/** As much of a case as its scene needs. */
export type Playable = Pick<LabCase, 'name' | 'stores' | 'resources' | 'promises'>

/** What a schedule has counted, by name. */
export type SceneFacts = ReadonlyMap<string, number>

/** What came of one contender. */
export interface ContenderOutcome {
  readonly contender: Contender
  readonly verdict: Verdict
  /** The story of the run, one line each, with milliseconds since it began. */
  readonly timeline: readonly string[]
  readonly history: readonly HistoryLine[]
  readonly tookMs: number
}

export type CaseOutcome =
  | { readonly kind: 'not run'; readonly name: string; readonly reason: string }
  | {
      readonly kind: 'ran'
      readonly name: string
      readonly expects: ViolationKind
      readonly broken: ContenderOutcome
      readonly ours: ContenderOutcome
      /** The broken one was found to be what it is. */
      readonly caught: boolean
      /** Ours was found to be without fault. */
      readonly passed: boolean
    }
  /** The schedule could not be played to its end. */
  | { readonly kind: 'failed'; readonly name: string; readonly contender: Contender; readonly reason: string }
