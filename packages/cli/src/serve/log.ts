import type { LogLine } from 'holdfast-service'

/** Every line of the service, for programs that collect them. */
export function jsonLine(line: LogLine): string {
  return JSON.stringify(line)
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
