/** For those who test a backend of their own, or their own code against a store that fails. */
export { type CrashOptions, type OpenedStore, ttl } from './testing/conformance/bench.js'
export {
  type CountedMethod,
  CountingBackend,
  countingBackend,
} from './testing/conformance/counting-backend.js'
export {
  type CallFault,
  type CallRule,
  FaultPlan,
  type FaultRule,
  type FaultyMethod,
  faulty,
  type PushFault,
  type PushRule,
} from './testing/conformance/faulty-backend.js'
export { RelayBackend } from './testing/conformance/relay-backend.js'
export {
  type CaseGroup,
  type ConformanceOptions,
  type ConformanceSummary,
  conformanceCases,
  describeBackend,
  type RanCase,
  type RunnerDescribe,
  type RunnerGroup,
  type RunnerIt,
  type SkippedCase,
  type SkipRequest,
} from './testing/conformance/suite.js'
export type { OpenedRecords } from './testing/record-conformance/bench.js'
export {
  describeRecords,
  type RecordConformanceOptions,
  type RecordConformanceSummary,
} from './testing/record-conformance/suite.js'
export { SeededRandom, settle, VirtualRuntime, VirtualTime } from './testing/virtual-time.js'
