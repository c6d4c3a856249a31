import { freshKey } from './keys.js'

/** What is needed of `sessionStorage`. */
export type IntentStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>

/** What came before another attempt. */
export interface RetryNotice {
  /** How many attempts there were. */
  readonly attempt: number
  readonly waitMs: number
  /** The answer, or undefined if there was none. */
  readonly response: Response | undefined
}

export interface IdempotentFetchOptions {
  /** What the user wants, such as `order:cart-17`. It has one key until it was answered for good. */
  readonly intent: string
  /** Where keys are kept over a reload. Default `sessionStorage`, or the memory of the page where there is none. */
  readonly storage?: IntentStorage
  /** How often it is sent again. Default 5. */
  readonly retries?: number
  /** A server that wants a longer wait than this is not asked again by itself. Default 60 s. */
  readonly maxWaitMs?: number
  /** Told before each wait. */
  readonly onRetry?: (notice: RetryNotice) => void
}

const FIRST_WAIT_MS = 500
const LONGEST_WAIT_MS = 8_000

/** For pages that may not use `sessionStorage`, or have filled it. */
const memory = new Map<string, string>()

const nameOf = (intent: string): string => `holdfast:intent:${intent}`

/** Reading `sessionStorage` is enough to make some browsers throw. */
function attempt<T>(access: () => T): T | undefined {
  try {
    return access()
  } catch {
    return undefined
  }
}

function keptKey(name: string, storage?: IntentStorage): string | null {
  return memory.get(name) ?? attempt(() => (storage ?? sessionStorage).getItem(name)) ?? null
}

function keep(name: string, key: string, storage?: IntentStorage): void {
  const kept = attempt(() => {
    ;(storage ?? sessionStorage).setItem(name, key)
    return true
  })
  if (kept !== true) memory.set(name, key)
}

/** Only its own key: another call may have begun the next intent of that name. */
function forget(name: string, key: string, storage?: IntentStorage): void {
  if (keptKey(name, storage) !== key) return
  memory.delete(name)
  attempt(() => (storage ?? sessionStorage).removeItem(name))
}

/** Whether this intent was begun, here or before a reload, and has no final answer yet. */
export function isInFlight(intent: string, options: Pick<IdempotentFetchOptions, 'storage'> = {}): boolean {
  return keptKey(nameOf(intent), options.storage) !== null
}

/**
 * `again`: it may be another one later. `open`: to ask again would not help, and yet it does not say what came of the
 * request, of which an earlier attempt may have been carried out.
 */
async function meaningOf(response: Response): Promise<'final' | 'again' | 'open'> {
  const { status } = response
  if (status === 425 || status === 429 || status >= 500) return 'again'
  if (status === 401 || status === 403 || status === 408) return 'open'
  if (status !== 409) return 'final'
  const problem: unknown = await response
    .clone()
    .json()
    .catch(() => null)
  const code = (problem as { code?: unknown } | null)?.code
  if (code === 'idempotency-in-progress') return 'again'
  return code === 'idempotency-outcome-unknown' ? 'open' : 'final'
}

/** What the server asks for, in milliseconds: seconds or a date, which is read by the clock that wrote it. */
function retryAfterOf(response: Response | undefined): number {
  const text = response?.headers.get('retry-after')?.trim() ?? ''
  if (/^\d+$/.test(text)) return Number(text) * 1_000
  const date = Date.parse(text)
  if (Number.isNaN(date)) return 0
  const now = Date.parse(response?.headers.get('date') ?? '')
  return Math.max(0, date - (Number.isNaN(now) ? Date.now() : now))
}

function backoff(attempts: number): number {
  const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (attempts - 1))
  return longest * (0.5 + Math.random() / 2)
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(signal.reason as Error)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, ms)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
}

/**
 * Fetches with one key and the same bytes until there is a final answer: no answer, 409 `idempotency-in-progress`, 425, 429
 * and 5xx are tried again. When the retries are used up it gives the last answer, or throws what `fetch` threw, and the key
 * is kept: the next call with this intent goes on with it, also after a reload. So it is with 401, 403, 408 and 409
 * `idempotency-outcome-unknown`, which are given at once.
 */
export async function idempotentFetch(
  input: RequestInfo | URL,
  init: RequestInit | undefined,
  options: IdempotentFetchOptions,
): Promise<Response> {
  const { intent, storage, retries = 5, maxWaitMs = 60_000, onRetry } = options
  if (typeof intent !== 'string' || intent === '') throw new TypeError('`intent` must say what is wanted.')
  if (init?.body instanceof ReadableStream) {
    throw new TypeError('A stream can be sent only once. Give the whole body: a string, a Blob, or FormData.')
  }
  const request = new Request(input, init)
  const { method, signal } = request
  // Read once: the boundary of a form, or a file that changes, would be another one the next time.
  const body = /^(GET|HEAD)$/.test(method) ? {} : { body: await request.clone().arrayBuffer() }

  signal.throwIfAborted()

  const name = nameOf(intent)
  const key = keptKey(name, storage) ?? freshKey()
  keep(name, key, storage)
  request.headers.set('Idempotency-Key', `"${key}"`)

  for (let attempts = 1; ; attempts++) {
    let response: Response | undefined
    let failure: unknown
    try {
      response = await fetch(new Request(request, body))
    } catch (error) {
      if (signal.aborted) throw error
      failure = error
    }
    const meaning = response === undefined ? 'again' : await meaningOf(response)
    if (meaning === 'final') forget(name, key, storage)
    if (response !== undefined && meaning !== 'again') return response
    const waitMs = Math.max(backoff(attempts), retryAfterOf(response))
    if (attempts > retries || waitMs > maxWaitMs) {
      if (response !== undefined) return response
      throw failure
    }
    onRetry?.({ attempt: attempts, waitMs, response })
    await pause(waitMs, signal)
  }
}
