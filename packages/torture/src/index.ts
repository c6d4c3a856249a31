export type { Verdict, Violation, ViolationKind } from './check/verdict.js'
export type { HistoryEvent, HistoryLine } from './history/format.js'
