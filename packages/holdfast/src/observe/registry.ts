import { InvalidInputError } from '../core/errors.js'
import {
  boundText,
  CONTENT_TYPES,
  type Family,
  type Format,
  formatFor,
  labelText,
  render,
  type Sample,
} from './exposition.js'

/** What a series is told apart by: a value for each label of its family. */
export type Labels<L extends string> = Readonly<Record<L, string>>

export interface MetricOptions<L extends string> {
  readonly name: string
  readonly help: string
  readonly labels?: readonly L[]
}

export interface HistogramOptions<L extends string> extends MetricOptions<L> {
  /** Upper bounds, rising. Default: from half a millisecond to five minutes, for seconds. */
  readonly buckets?: readonly number[]
}

/** What one scrape gets. */
export interface Exposition {
  readonly contentType: string
  readonly body: string
}

/** Half a millisecond to five minutes: from a hand-over in the process to a wait for a night job. */
export const SECONDS_BUCKETS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
] as const

/** More series than this in one family would cost whoever stores them more than they tell. */
const SERIES_MAX = 2_000
/** What has not happened yet must not take the room of what happens. */
const SERIES_AT_ZERO_MAX = SERIES_MAX / 2
const OTHER = 'other'

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]{0,199}$/
const LABEL = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,99}$/

/** The series of one family, found by their labels and bounded in number. */
class SeriesTable<L extends string, S> {
  readonly #labels: readonly L[]
  readonly #make: () => S
  readonly #series = new Map<string, S>()
  /** The same by their values as they are given, so that their text is made once and not at every count. */
  readonly #byValues = new Map<string, S>()

  constructor(labels: readonly L[], make: () => S) {
    this.#labels = labels
    this.#make = make
    // What has no labels is there from the beginning, so that nothing yet shows as 0.
    if (labels.length === 0) this.#series.set('', make())
  }

  of(values: Labels<L>): S {
    const key = this.#keyOf(values)
    const known = this.#byValues.get(key)
    if (known !== undefined) return known
    const text = this.#text((label) => values[label])
    const found = this.#series.get(text) ?? (this.#series.size < SERIES_MAX ? this.#add(text) : this.#rest())
    if (this.#byValues.size < SERIES_MAX) this.#byValues.set(key, found)
    return found
  }

  /** Makes the series, if that leaves enough room for others. */
  prepare(values: Labels<L>): void {
    if (this.#series.size < SERIES_AT_ZERO_MAX) this.of(values)
  }

  [Symbol.iterator](): Iterator<[string, S]> {
    return this.#series.entries()
  }

  #rest(): S {
    const text = this.#text(() => OTHER)
    return this.#series.get(text) ?? this.#add(text)
  }

  #add(text: string): S {
    const made = this.#make()
    this.#series.set(text, made)
    return made
  }

  /** Lengths keep the values apart, whatever is in them. */
  #keyOf(values: Labels<L>): string {
    let key = ''
    for (const label of this.#labels) key += `${values[label].length}:${values[label]}`
    return key
  }

  #text(valueOf: (label: L) => string): string {
    return this.#labels.map((label) => labelText(label, valueOf(label))).join(',')
  }
}

interface Cell {
  value: number
}

abstract class Single<L extends string> implements Family {
  abstract readonly type: 'counter' | 'gauge'
  readonly name: string
  readonly help: string
  protected readonly series: SeriesTable<L, Cell>

  constructor({ name, help, labels = [] }: MetricOptions<L>) {
    this.name = name
    this.help = help
    this.series = new SeriesTable(labels, () => ({ value: 0 }))
  }

  *samples(): Generator<Sample> {
    for (const [labels, { value }] of this.series) yield { suffix: '', labels, value }
  }
}

/** A number that only grows. */
export class Counter<L extends string = never> extends Single<L> {
  readonly type = 'counter'

  /** What is negative or no number would break every rate that is made of it, so it is left out. */
  add(labels: Labels<L>, by = 1): void {
    if (by >= 0 && Number.isFinite(by)) this.series.of(labels).value += by
  }

  /**
   * Shows 0 before there is anything to count: a rate sees only what grows, and not what is there at once. Where the
   * family has 1,000 series already nothing is done, so that there is room for what really happens.
   */
  startAtZero(labels: Labels<L>): void {
    this.series.prepare(labels)
  }
}

/** A number that goes up and down. */
export class Gauge<L extends string = never> extends Single<L> {
  readonly type = 'gauge'
  #read: (() => number) | null = null

  add(labels: Labels<L>, by = 1): void {
    this.series.of(labels).value += by
  }

  set(labels: Labels<L>, value: number): void {
    this.series.of(labels).value = value
  }

  /** Asks for the number at every scrape. Only for a gauge without labels. */
  observe(read: () => number): void {
    this.#read = read
  }

  override *samples(): Generator<Sample> {
    if (this.#read === null) yield* super.samples()
    else yield { suffix: '', labels: '', value: this.#read() }
  }
}

interface Buckets {
  readonly counts: number[]
  sum: number
  count: number
}

/** How often something was at most so large. */
export class Histogram<L extends string = never> implements Family {
  readonly type = 'histogram'
  readonly name: string
  readonly help: string
  readonly #bounds: readonly number[]
  readonly #series: SeriesTable<L, Buckets>

  constructor({ name, help, labels = [], buckets = SECONDS_BUCKETS }: HistogramOptions<L>) {
    this.name = name
    this.help = help
    this.#bounds = [...buckets]
    this.#series = new SeriesTable(labels, () => ({
      counts: this.#bounds.map(() => 0),
      sum: 0,
      count: 0,
    }))
  }

  observe(labels: Labels<L>, value: number): void {
    if (!Number.isFinite(value)) return
    const into = this.#series.of(labels)
    into.sum += value
    into.count += 1
    const index = this.#bounds.findIndex((bound) => value <= bound)
    if (index >= 0) into.counts[index] = (into.counts[index] ?? 0) + 1
  }

  *samples(format: Format): Generator<Sample> {
    for (const [labels, { counts, sum, count }] of this.#series) {
      const bucket = (bound: string, value: number): Sample => {
        const le = labelText('le', bound)
        return { suffix: '_bucket', labels: labels === '' ? le : `${labels},${le}`, value }
      }
      let below = 0
      for (const [index, bound] of this.#bounds.entries()) {
        below += counts[index] ?? 0
        yield bucket(boundText(bound, format), below)
      }
      yield bucket('+Inf', count)
      yield { suffix: '_sum', labels, value: sum }
      yield { suffix: '_count', labels, value: count }
    }
  }
}

/** Metrics that are shown on one page. */
export class Registry {
  readonly #families = new Map<string, Family>()

  counter<L extends string = never>(options: MetricOptions<L>): Counter<L> {
    if (!String(options.name).endsWith('_total')) {
      throw new InvalidInputError('name', 'the name of a counter, which ends in `_total`', options.name)
    }
    return this.#add(options, () => new Counter(options))
  }

  gauge<L extends string = never>(options: MetricOptions<L>): Gauge<L> {
    return this.#add(options, () => new Gauge(options))
  }

  histogram<L extends string = never>(options: HistogramOptions<L>): Histogram<L> {
    const { buckets } = options
    const rising = buckets?.every(
      (bound, index) => Number.isFinite(bound) && bound > (buckets[index - 1] ?? Number.NEGATIVE_INFINITY),
    )
    if (rising === false) throw new InvalidInputError('buckets', 'finite numbers that rise', buckets)
    return this.#add(options, () => new Histogram(options))
  }

  /** Everything as text. */
  text(format: Format = 'prometheus'): string {
    return render(this.#families.values(), format)
  }

  /** Everything in the format that the `Accept` header of a scrape asks for. */
  expose(accept?: string): Exposition {
    const format = formatFor(accept)
    return { contentType: CONTENT_TYPES[format], body: this.text(format) }
  }

  #add<F extends Family>({ name, labels = [] }: MetricOptions<string>, make: () => F): F {
    if (typeof name !== 'string' || !NAME.test(name)) {
      throw new InvalidInputError('name', 'the name of a metric, such as `jobs_done_total`', name)
    }
    for (const label of labels) {
      if (LABEL.test(label) && label !== 'le') continue
      throw new InvalidInputError('labels', 'names of labels, such as `queue`', label)
    }
    if (new Set(labels).size < labels.length) {
      throw new InvalidInputError('labels', 'names that differ', labels)
    }
    if (this.#families.has(name)) {
      throw new InvalidInputError('name', 'a name that no other metric of the registry has', name)
    }
    const family = make()
    this.#families.set(name, family)
    return family
  }
}
