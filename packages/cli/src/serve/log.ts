import type { LogLine } from 'holdfast-service'
import { toJson } from '../format/views.js'

/** Every line of the service, for programs that collect them. Names in it come from clients, and a terminal may show it. */
export function jsonLine(line: LogLine): string {
  return toJson(line)
}

/** What people should see: what the operator must know. Requests are too many. */
export function plainLine(line: LogLine): string | null {
  switch (line.kind) {
    case 'request':
      return null
    case 'notice':
      return line.level === 'info' ? line.text : `${line.level}: ${line.text}`
    case 'break':
      return `${line.principal} at ${line.address} broke ${line.name} (${describeRefs(line)}): ${line.reason}`
  }
}

function describeRefs({ refs, refsTotal = refs.length }: Extract<LogLine, { kind: 'break' }>): string {
  if (refs.length === 0) return 'it was not held'
  const more = refsTotal - refs.length
  const shown = refs.length === 1 ? `claim ${refs[0]}` : `claims ${refs.join(', ')}`
  return more === 0 ? shown : `${shown} and ${more} more`
}
