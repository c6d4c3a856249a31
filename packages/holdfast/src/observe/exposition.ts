/** The two text formats that Prometheus reads: its own, version 0.0.4, and OpenMetrics 1.0. */

export type Format = 'prometheus' | 'openmetrics'

export const CONTENT_TYPES: Readonly<Record<Format, string>> = {
  prometheus: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

/** A label says which group something is in; more than this is no group any more. */
const LABEL_CHARS_MAX = 128

/** One line: a name with its suffix, the text of its labels, a number. */
export interface Sample {
  readonly suffix: string
  readonly labels: string
  readonly value: number
}

export interface Family {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  samples(format: Format): Iterable<Sample>
}

export function labelText(name: string, value: string): string {
  const short = value.toWellFormed().slice(0, LABEL_CHARS_MAX).toWellFormed()
  const escaped = short.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
  return `${name}="${escaped}"`
}

export function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (!Number.isFinite(value)) return value > 0 ? '+Inf' : '-Inf'
  return String(value)
}

/** The bound of a bucket. OpenMetrics writes it as a float, even where it is whole. */
export function boundText(bound: number, format: Format): string {
  const text = numberText(bound)
  return format === 'openmetrics' && Number.isInteger(bound) ? `${text}.0` : text
}

export function render(families: Iterable<Family>, format: Format): string {
  const lines: string[] = []
  for (const family of families) {
    const { name, help, type } = family
    // OpenMetrics names a family of counters without the suffix that its samples have.
    const title = format === 'openmetrics' && type === 'counter' ? name.slice(0, -'_total'.length) : name
    lines.push(`# HELP ${title} ${escapeHelp(help, format)}`, `# TYPE ${title} ${type}`)
    for (const { suffix, labels, value } of family.samples(format)) {
      lines.push(`${name}${suffix}${labels === '' ? '' : `{${labels}}`} ${numberText(value)}`)
    }
  }
  if (format === 'openmetrics') lines.push('# EOF')
  return `${lines.join('\n')}\n`
}

function escapeHelp(help: string, format: Format): string {
  const text = help.toWellFormed().replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  return format === 'openmetrics' ? text.replaceAll('"', '\\"') : text
}

/** What a scraper asks for. One that names OpenMetrics gets it unless it likes the plain text better. */
export function formatFor(accept: string | undefined): Format {
  const openmetrics = qualityOf(accept, 'application/openmetrics-text')
  return openmetrics > 0 && openmetrics >= qualityOf(accept, 'text/plain') ? 'openmetrics' : 'prometheus'
}

function qualityOf(accept: string | undefined, type: string): number {
  for (const range of (accept ?? '').toLowerCase().split(',')) {
    const [name = '', ...parameters] = range.split(';').map((part) => part.trim())
    if (name !== type) continue
    const quality = parameters.find((parameter) => parameter.startsWith('q='))
    const value = quality === undefined ? 1 : Number(quality.slice(2))
    return Number.isFinite(value) ? value : 0
  }
  return 0
}
