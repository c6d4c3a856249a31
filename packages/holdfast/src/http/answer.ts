/** An answer that the library gives by itself: a problem, a replay, or somebody's refusal. */
export interface Answer {
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Uint8Array | null
  /** Headers that scripts of other origins may read, besides those that they may read anyway. */
  readonly exposes: readonly string[]
}

export const KEY_HEADER = 'Idempotency-Key'
const EXPOSE_HEADER = 'Access-Control-Expose-Headers'

/** Scripts need it to wait for as long as they are told to. */
export const EXPOSE_HEADERS: readonly string[] = ['Retry-After']

/** What is exposed already, and what shall be, each once. */
export function exposedHeaders(before: string | null | undefined, names: readonly string[]): string {
  const listed = (before ?? '').split(',').map((name) => name.trim())
  const kept = listed.filter((name) => name !== '')
  const seen = new Set(kept.map((name) => name.toLowerCase()))
  return [...kept, ...names.filter((name) => !seen.has(name.toLowerCase()))].join(', ')
}

/** How headers are read and written, whatever the framework calls that. */
export interface HeaderPort {
  get(name: string): string | null
  set(name: string, value: string): void
}

/** Adds what an answer says about itself, and leaves what others have put there. */
export function putHeaders(port: HeaderPort, headers: Answer['headers'], exposes: readonly string[]): void {
  for (const [name, value] of headers) port.set(name, value)
  if (exposes.length > 0) port.set(EXPOSE_HEADER, exposedHeaders(port.get(EXPOSE_HEADER), exposes))
}

/** How long an answer says that its body is; null: it does not say, or not in digits. */
export function contentLengthOf(text: string | null | undefined): number | null {
  return /^\d{1,15}$/.test(text ?? '') ? Number(text) : null
}
