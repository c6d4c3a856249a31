import { readFile, stat } from 'node:fs/promises'
import { AuthFileError, type AuthTokens, checkAuth, parseAuth } from './auth-entries.js'
import { BearerTokens } from './bearer-tokens.js'
import type { Authority } from './guard.js'
import { type Log, notice } from './log-line.js'
import type { Principal } from './principal.js'

/** A token that was revoked is refused this much later at the latest. */
const LOOK_EVERY_MS = 1_000
const FILE_BYTES_MAX = 4 * 1_024 * 1_024

export interface AuthFileOptions {
  readonly log?: Log | null
  readonly lookEveryMs?: number
  /** Reads the whole file. */
  readonly read?: (path: string) => Promise<string>
}

/** The tokens of a file, which is read again when it changes. */
export class AuthFile implements Authority {
  readonly #path: string
  readonly #tokens: BearerTokens
  readonly #log: Log | null
  readonly #read: (path: string) => Promise<string>
  readonly #timer: NodeJS.Timeout
  #seen: string
  /** What was complained about last; null: the file could be read since. */
  #complaint: string | null = null
  #looking = false

  constructor(path: string, tokens: BearerTokens, seen: string, options: AuthFileOptions) {
    this.#path = path
    this.#tokens = tokens
    this.#seen = seen
    this.#log = options.log ?? null
    this.#read = options.read ?? textOf
    this.#timer = setInterval(() => void this.look(), options.lookEveryMs ?? LOOK_EVERY_MS)
    this.#timer.unref()
  }

  identify(token: string): Principal | null {
    return this.#tokens.identify(token)
  }

  /** Reads the file again if it changed. A broken one changes nothing: half a file must not lock everybody out. */
  async look(): Promise<void> {
    if (this.#looking) return
    this.#looking = true
    try {
      const seen = await traceOf(this.#path)
      if (seen === this.#seen) return
      this.#take(seen, await this.#read(this.#path))
    } catch (error) {
      this.#complain(error)
    } finally {
      this.#looking = false
    }
  }

  #take(seen: string, text: string): void {
    // Noted before it is understood, so that a broken file is complained about once and not every second. But not before
    // it was read: that may fail for reasons that pass, and then the file must be tried again.
    this.#seen = seen
    this.#complaint = null
    this.#tokens.replace(parseAuth(text))
    notice(this.#log, 'info', `The auth file changed: ${this.#tokens.count} tokens are known now.`)
  }

  #complain(error: unknown): void {
    const why = because(error)
    // One that cannot be read is tried every second, and complained about once.
    if (why === this.#complaint) return
    this.#complaint = why
    notice(this.#log, 'error', `The auth file was not read again, the old one stays in force: ${why}.`)
  }

  close(): void {
    clearInterval(this.#timer)
  }
}

/** Opens an auth file, or takes what one would say. What is wrong with it is thrown as an `AuthFileError`. */
export async function openAuth(
  given: string | AuthTokens,
  options: AuthFileOptions = {},
): Promise<Authority & { close(): void }> {
  if (typeof given !== 'string') {
    const tokens = new BearerTokens(checkAuth(given))
    return { identify: (token) => tokens.identify(token), close: () => undefined }
  }
  try {
    const seen = await traceOf(given)
    const { read = textOf } = options
    const tokens = new BearerTokens(parseAuth(await read(given)))
    if (await othersMayWrite(given)) {
      const text =
        'The auth file can be written by others than its owner, who can so give themselves rights: chmod 600.'
      notice(options.log ?? null, 'warning', text)
    }
    return new AuthFile(given, tokens, seen, options)
  } catch (error) {
    throw new AuthFileError(`The auth file cannot be used: ${because(error)}.`)
  }
}

/** What tells one version of a file from another: a replaced file is another one even within one tick of the clock. */
async function traceOf(path: string): Promise<string> {
  try {
    const { mtimeMs, ctimeMs, size, ino } = await stat(path)
    return `${mtimeMs} ${ctimeMs} ${size} ${ino}`
  } catch (error) {
    return codeOf(error)
  }
}

async function othersMayWrite(path: string): Promise<boolean> {
  return process.platform !== 'win32' && ((await stat(path)).mode & 0o022) !== 0
}

async function textOf(path: string): Promise<string> {
  if ((await stat(path)).size > FILE_BYTES_MAX) throw new AuthFileError('it is too large')
  return await readFile(path, 'utf8')
}

function because(error: unknown): string {
  if (error instanceof AuthFileError) return error.message
  const code = codeOf(error)
  return code === 'ENOENT' ? 'there is no such file' : `it cannot be read (${code})`
}

function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : 'unknown'
}
