/** What a timer of Node.js can take; a longer wait would fire at once. */
const DURATION_MAX_MS = 2 ** 31 - 1

const UNIT_MS: ReadonlyMap<string, number> = new Map([
  ['ms', 1],
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
])

const PATTERN = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/

export type ParsedDuration =
  | { readonly ok: true; readonly ms: number }
  | { readonly ok: false; readonly problem: string }

/** Reads `500ms`, `30s`, `5m`, `1.5h`. A bare number is refused: nobody can tell which unit was meant. */
export function parseDuration(text: string): ParsedDuration {
  const match = PATTERN.exec(text.trim())
  if (match === null) {
    const problem = /^\d+(\.\d+)?$/.test(text.trim())
      ? `a duration needs a unit: ${text.trim()}ms, ${text.trim()}s, ${text.trim()}m or ${text.trim()}h`
      : 'expected a duration such as 500ms, 30s, 5m or 1h'
    return { ok: false, problem }
  }
  const ms = Math.round(Number(match[1]) * (UNIT_MS.get(match[2] ?? '') ?? Number.NaN))
  if (ms > DURATION_MAX_MS) return { ok: false, problem: 'a duration can be at most 24 days' }
  return { ok: true, ms }
}

/** Says a length of time in at most two units, short enough for a column of a table. */
export function formatDuration(ms: number): string {
  const value = Math.max(0, ms)
  if (value < 1_000) return `${Math.round(value)}ms`
  if (value < 10_000) return `${(Math.floor(value / 100) / 10).toFixed(1)}s`
  const seconds = Math.floor(value / 1_000)
  if (seconds < 60) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes}m${pad(seconds % 60)}s`
  const hours = Math.floor(minutes / 60)
  if (hours < 24) return `${hours}h${pad(minutes % 60)}m`
  return `${Math.floor(hours / 24)}d${pad(hours % 24)}h`
}

function pad(value: number): string {
  return String(value).padStart(2, '0')
}
