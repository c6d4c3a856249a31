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
      return `${line.principal} at ${line.address} broke ${line.name} (${describeRefs(line.refs)}): ${line.reason}`
  }
}

function describeRefs(refs: readonly string[]): string {
  if (refs.length === 0) return 'nobody was there'
  return refs.length === 1 ? `claim ${refs[0]}` : `claims ${refs.join(', ')}`
}
