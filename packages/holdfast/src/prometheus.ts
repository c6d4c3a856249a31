export type { Format } from './observe/exposition.js'
export { createMetrics, type Metrics, type MetricsOptions } from './observe/prometheus.js'
export {
  type Counter,
  type Exposition,
  type Gauge,
  type Histogram,
  type HistogramOptions,
  type Labels,
  type MetricOptions,
  Registry,
  SECONDS_BUCKETS,
} from './observe/registry.js'
