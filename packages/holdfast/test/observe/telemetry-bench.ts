import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type Context,
  type ContextManager,
  context,
  ROOT_CONTEXT,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import {
  AggregationTemporality,
  type DataPoint,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { type Instrumentation, type InstrumentOptions, instrument } from '../../src/opentelemetry.js'

/** What the SDK for Node.js registers, in as many lines as a test needs. */
class FlowContexts implements ContextManager {
  readonly #flow = new AsyncLocalStorage<Context>()

  active(): Context {
    return this.#flow.getStore() ?? ROOT_CONTEXT
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    active: Context,
    run: F,
    self?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#flow.run(active, () => run.call(self, ...args))
  }

  bind<T>(_active: Context, target: T): T {
    return target
  }

  enable(): this {
    return this
  }

  disable(): this {
    return this
  }
}

/** The real SDK with exporters that keep everything. */
export class TelemetryBench implements AsyncDisposable {
  readonly tracer: Tracer
  readonly instrumentation: Instrumentation
  readonly #spans = new InMemorySpanExporter()
  readonly #metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  readonly #tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(this.#spans)] })
  readonly #meters = new MeterProvider({
    readers: [
      new PeriodicExportingMetricReader({ exporter: this.#metrics, exportIntervalMillis: 3_600_000 }),
    ],
  })

  constructor(options: Omit<InstrumentOptions, 'tracer' | 'meter'> = {}) {
    context.setGlobalContextManager(new FlowContexts())
    this.tracer = this.#tracers.getTracer('test')
    const meter = this.#meters.getMeter('test')
    this.instrumentation = instrument({ tracer: this.tracer, meter, ...options })
  }

  /** The spans that have ended. */
  get spans(): ReadableSpan[] {
    return this.#spans.getFinishedSpans()
  }

  named(name: string): ReadableSpan[] {
    return this.spans.filter((span) => span.name === name)
  }

  /** Runs something as the child of a span of its own, as a request handler would. */
  async under<T>(name: string, run: () => Promise<T>): Promise<T> {
    return await this.tracer.startActiveSpan(name, async (span) => {
      try {
        return await run()
      } finally {
        span.end()
      }
    })
  }

  idOf(name: string): string | undefined {
    return this.named(name)[0]?.spanContext().spanId
  }

  async metrics(): Promise<Map<string, MetricData>> {
    await this.#meters.forceFlush()
    const last = this.#metrics.getMetrics().at(-1)
    const all = last?.scopeMetrics.flatMap(({ metrics }) => metrics) ?? []
    return new Map(all.map((metric) => [metric.descriptor.name, metric]))
  }

  /** The sum of what a metric counted, or how often it was recorded. */
  async sumOf(name: string, attributes: Readonly<Record<string, string>> = {}): Promise<number> {
    const points: DataPoint<unknown>[] = (await this.metrics()).get(name)?.dataPoints ?? []
    return points
      .filter((point) => Object.entries(attributes).every(([key, value]) => point.attributes[key] === value))
      .map(({ value }) => (typeof value === 'number' ? value : (value as { count: number }).count))
      .reduce((sum, value) => sum + value, 0)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.instrumentation.close()
    await this.#tracers.shutdown()
    await this.#meters.shutdown()
    context.disable()
    trace.disable()
  }
}
