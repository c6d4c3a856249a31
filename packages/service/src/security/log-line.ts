/** What the service writes about itself, as values: whoever listens decides on the form. No secret is in any of them. */

export type LogLine = RequestLine | BreakLine | NoticeLine

/** One request that was answered, or that its client gave up. */
export interface RequestLine {
  readonly kind: 'request'
  readonly at: string
  readonly method: string
  /** The pattern of the route, such as `/v1/locks/:name/acquire`; null where there is none. */
  readonly route: string | null
  /** The lock, escaped and cut. */
  readonly name: string | null
  readonly status: number
  readonly ms: number
  readonly principal: string
  /** The public reference of the claim, where there is one. */
  readonly ref: string | null
}

/** The audit of a break: who took what from whom, and why. */
export interface BreakLine {
  readonly kind: 'break'
  readonly at: string
  readonly principal: string
  readonly address: string
  readonly name: string
  readonly reason: string
  /** The references of the claims that were taken away, 100 at most. */
  readonly refs: readonly string[]
  /** How many were taken away, if `refs` does not show all of them. */
  readonly refsTotal?: number
}

/** Something that the operator should know. */
export interface NoticeLine {
  readonly kind: 'notice'
  readonly at: string
  readonly level: 'info' | 'warning' | 'error'
  readonly text: string
}

export type Log = (line: LogLine) => void

const NAME_SHOWN_MAX = 120
const REASON_SHOWN_MAX = 1_024
const REFS_SHOWN_MAX = 100

/** What must not reach a log or a terminal raw: what steers them, turns or hides text, or draws nothing. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/** Text from outside, cut, and safe on one line. What is unsafe shows as a code such as `\u{202e}`. */
export function safeText(text: string, max: number = NAME_SHOWN_MAX): string {
  const cut = text.length > max ? `${text.slice(0, max)}…` : text
  return cut.replace(UNSAFE, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)
}

const CREDENTIALS = /([a-z][a-z0-9+.-]{0,40}:\/\/)[^\s/?#]*@/gi
const SECRET_PARAMETERS = /([?&](?:password|passwd|pwd|token|secret|auth)=)[^\s&#"']*/gi

/** What a driver says about the store may name its URL, but not what stands in it before the host. */
export function notice(log: Log | null, level: NoticeLine['level'], text: string): void {
  const redacted = text.replace(CREDENTIALS, '$1***@').replace(SECRET_PARAMETERS, '$1***')
  log?.({ kind: 'notice', at: new Date().toISOString(), level, text: safeText(redacted, REASON_SHOWN_MAX) })
}

/** Writes down a break. It is written also when nothing was there to break: the attempt is what counts. */
export function auditBreak(
  log: Log | null,
  done: Pick<BreakLine, 'principal' | 'address' | 'name' | 'reason' | 'refs'>,
): void {
  log?.({
    kind: 'break',
    at: new Date().toISOString(),
    principal: safeText(done.principal),
    address: safeText(done.address),
    name: safeText(done.name),
    reason: safeText(done.reason, REASON_SHOWN_MAX),
    refs: done.refs.slice(0, REFS_SHOWN_MAX).map((ref) => safeText(ref)),
    ...(done.refs.length > REFS_SHOWN_MAX ? { refsTotal: done.refs.length } : {}),
  })
}
