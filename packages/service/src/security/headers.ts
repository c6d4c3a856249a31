/** The headers that every answer carries. There is never one that lets another origin read. */

const POLICY = [
  "default-src 'self'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "object-src 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "form-action 'none'",
].join('; ')

/** The page of the API documentation writes `style` attributes. It shows nothing that came from outside. */
const DOCS_POLICY = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")

export const DOCS_PATH = '/docs'

const YEAR_SECONDS = 31_536_000
export const STRICT_TRANSPORT = `max-age=${YEAR_SECONDS}`

export const ANSWER_HEADERS: ReadonlyArray<readonly [string, string]> = [
  ['Content-Security-Policy', POLICY],
  ['X-Content-Type-Options', 'nosniff'],
  ['Referrer-Policy', 'no-referrer'],
  ['Cross-Origin-Opener-Policy', 'same-origin'],
  ['Cross-Origin-Resource-Policy', 'same-origin'],
  // The pages, which hold no data, say otherwise for themselves.
  ['Cache-Control', 'no-store'],
]

export function isDocs(url: string): boolean {
  return url === DOCS_PATH || url.startsWith(`${DOCS_PATH}/`)
}

export const DOCS_HEADERS: ReadonlyArray<readonly [string, string]> = ANSWER_HEADERS.map(([name, value]) => [
  name,
  value === POLICY ? DOCS_POLICY : value,
])
