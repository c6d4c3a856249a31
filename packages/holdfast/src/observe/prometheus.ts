import { checkFunction, checkInteger, checkKeys } from '../core/options.js'
import { CONTENT_TYPES, type Format } from './exposition.js'
import { IdempotencyMetrics } from './idempotency-metrics.js'
import { LockMetrics } from './lock-metrics.js'
import { GROUPS_MAX, NameGroups } from './name-groups.js'
import { type Exposition, Registry, SECONDS_BUCKETS } from './registry.js'
import { listen } from './subscription.js'

export interface MetricsOptions {
  /** Where the metrics are added, next to those of your own. Default: a registry for them alone. */
  readonly registry?: Registry
  /**
   * Names of locks are in no label, because there may be any number of them. This says which group a name belongs to,
   * and the group becomes the label `lock`.
   */
  readonly labelFor?: (name: string) => string
  /** As many groups are shown; the rest is `other`. Default 100. */
  readonly labelsMax?: number
  /** Upper bounds of the histograms, in seconds. Default: half a millisecond to five minutes. */
  readonly buckets?: readonly number[]
  /** What `text()` writes. Default `prometheus`, which is the text format 0.0.4. */
  readonly format?: Format
}

/** What this process does with locks and keys, as metrics. */
export interface Metrics extends Disposable {
  readonly registry: Registry
  /** Of what `text()` gives. */
  readonly contentType: string
  /** Everything that the registry has. */
  text(): string
  /** The same in the format that the `Accept` header of a scrape asks for. */
  expose(accept?: string): Exposition
  /** Listens no more. What was counted stays. Idempotent. */
  close(): void
}

/** Begins to count what every client of this process does. */
export function createMetrics(options: MetricsOptions = {}): Metrics {
  checkKeys(options, ['registry', 'labelFor', 'labelsMax', 'buckets', 'format'])
  const { registry = new Registry(), labelFor, buckets = SECONDS_BUCKETS, format = 'prometheus' } = options
  const labelsMax = checkInteger(options.labelsMax ?? GROUPS_MAX, 'labelsMax', 1, 1_000)
  if (labelFor !== undefined) checkFunction(labelFor, 'labelFor')
  const groups = labelFor === undefined ? null : new NameGroups(labelFor, labelsMax)
  const locks = new LockMetrics(registry, groups, buckets)
  const idempotency = new IdempotencyMetrics(registry, buckets)
  const stop = listen({
    lock: (event) => locks.see(event),
    idempotency: (event) => idempotency.see(event),
  })
  return {
    registry,
    contentType: CONTENT_TYPES[format],
    text: () => registry.text(format),
    expose: (accept) => registry.expose(accept),
    close: stop,
    [Symbol.dispose]: stop,
  }
}
