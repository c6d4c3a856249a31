import type { Meter, Tracer } from '@opentelemetry/api'
import { InvalidInputError } from '../core/errors.js'
import { checkBoolean, checkFunction, checkInteger, checkKeys } from '../core/options.js'
import { LockSpans } from './lock-spans.js'
import { LockInstruments, RunInstruments } from './meter-instruments.js'
import { GROUPS_MAX, NameGroups } from './name-groups.js'
import { RunSpans } from './run-spans.js'
import { listen } from './subscription.js'

/** Enough for what one process waits for and holds at a time. */
const SPANS_MAX = 10_000

export interface InstrumentOptions {
  /** Makes the spans, such as `trace.getTracer('my-app')`. Left out: there are none. */
  readonly tracer?: Tracer
  /** Makes the metrics, such as `metrics.getMeter('my-app')`. Left out: there are none. */
  readonly meter?: Meter
  /** Whether spans carry the names of locks and operations. Default false: a name may tell whose it is. */
  readonly names?: boolean
  /** What spans carry instead of the name; null: nothing. */
  readonly nameFor?: (name: string) => string | null
  /** Names are in no metric. This says which group a name belongs to, for the attribute `holdfast.lock.group`. */
  readonly labelFor?: (name: string) => string
  /** As many groups are told apart; the rest is `other`. Default 100. */
  readonly labelsMax?: number
  /** As many spans may be open at once, of locks and of runs each; what comes on top is not traced. Default 10,000. */
  readonly spansMax?: number
}

export interface Instrumentation extends Disposable {
  /** How many acquisitions and runs were not traced because too many spans were open. */
  readonly skipped: number
  /** Listens no more, and ends the spans that are open. Idempotent. */
  close(): void
}

/** Begins to tell OpenTelemetry what every client of this process does. */
export function instrument(options: InstrumentOptions): Instrumentation {
  checkKeys(options, ['tracer', 'meter', 'names', 'nameFor', 'labelFor', 'labelsMax', 'spansMax'])
  const { tracer, meter } = options
  requireMethod(tracer, 'startSpan', 'tracer', "`trace.getTracer('my-app')`")
  requireMethod(meter, 'createHistogram', 'meter', "`metrics.getMeter('my-app')`")
  const spansMax = checkInteger(options.spansMax ?? SPANS_MAX, 'spansMax', 1, 1_000_000)
  const nameOf = namingOf(options)
  const lockSpans = tracer === undefined ? null : new LockSpans(tracer, nameOf, spansMax)
  const runSpans = tracer === undefined ? null : new RunSpans(tracer, nameOf, spansMax)
  const lockMeter = meter === undefined ? null : new LockInstruments(meter, groupsOf(options))
  const runMeter = meter === undefined ? null : new RunInstruments(meter)
  const stop = listen({
    lock: (event) => {
      lockSpans?.see(event)
      lockMeter?.see(event)
    },
    idempotency: (event) => {
      runSpans?.see(event)
      runMeter?.see(event)
    },
  })
  const close = (): void => {
    stop()
    lockSpans?.close()
    runSpans?.close()
  }
  return {
    get skipped() {
      return (lockSpans?.skipped ?? 0) + (runSpans?.skipped ?? 0)
    },
    close,
    [Symbol.dispose]: close,
  }
}

function requireMethod(value: unknown, method: string, what: string, example: string): void {
  if (value === undefined) return
  const found: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, method) : null
  if (typeof found !== 'function') throw new InvalidInputError(what, `a ${what}, such as ${example}`, value)
}

/** Whatever is wrong with the caller's function must not reach whoever takes a lock. */
function namingOf({ names = false, nameFor }: InstrumentOptions): (name: string) => string | null {
  checkBoolean(names, 'names')
  if (nameFor === undefined) return names ? (name) => name : () => null
  checkFunction(nameFor, 'nameFor')
  return (name) => {
    try {
      const shown: unknown = nameFor(name)
      return typeof shown === 'string' ? shown : null
    } catch {
      return null
    }
  }
}

function groupsOf({ labelFor, labelsMax = GROUPS_MAX }: InstrumentOptions): NameGroups | null {
  checkInteger(labelsMax, 'labelsMax', 1, 1_000)
  if (labelFor === undefined) return null
  checkFunction(labelFor, 'labelFor')
  return new NameGroups(labelFor, labelsMax)
}
