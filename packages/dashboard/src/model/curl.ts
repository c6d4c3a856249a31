/** What the playground asks for, as fields of the request. Only what differs from the default is in it. */
export interface Ask {
  readonly name: string
  readonly mode: 'mutex' | 'read' | 'write' | 'semaphore'
  readonly limit: number
  readonly permits: number
  readonly ttlMs: number
  readonly waitMs: number
  readonly note: string
}

export function bodyOf(ask: Ask): Record<string, string | number> {
  return {
    ...(ask.mode === 'mutex' ? {} : { mode: ask.mode }),
    ...(ask.mode === 'semaphore' ? { limit: ask.limit, permits: ask.permits } : {}),
    ttlMs: ask.ttlMs,
    ...(ask.waitMs > 0 ? { waitMs: ask.waitMs } : {}),
    ...(ask.note === '' ? {} : { note: ask.note }),
  }
}

/**
 * The path of one lock at the service. Browsers and curl remove the segments `.` and `..` from a path, escaped or not, so
 * locks with these names are named in the query.
 */
export function lockPath(name: string, verb: string): string {
  if (name === '.' || name === '..') return `/v1/locks/-/${verb}?name=${name}`
  return `/v1/locks/${encodeURIComponent(name)}/${verb}`
}

/** The same request as a command. Secrets are taken from variables, so that they stay out of the shell's history. */
export function curlOf(base: string, path: string, body: object, secured: boolean): string {
  const lines = [`curl -X POST ${quoted(`${base}${path}`)}`, `-H 'content-type: application/json'`]
  if (secured) lines.push('-H "authorization: Bearer $HOLDFAST_TOKEN"')
  lines.push(`-d ${quoted(JSON.stringify(body))}`)
  return lines.join(' \\\n  ')
}

/** In single quotes a shell changes nothing, so only these themselves must be written in another way. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
