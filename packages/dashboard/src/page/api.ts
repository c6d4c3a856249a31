import { isRecord, textOf } from './json.js'

export interface Answer {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

const KEY = 'holdfast-token'

/** The routes of the service. The token goes into a header only, never into an address, and lives as long as the tab. */
export class Api {
  /** Somebody must say who they are before anything more can be asked. */
  onUnauthenticated: (() => void) | null = null
  #token: string | null = null

  constructor() {
    try {
      this.#token = sessionStorage.getItem(KEY)
    } catch {
      // Without storage the token is asked for again in the next page.
      this.#token = null
    }
  }

  get hasToken(): boolean {
    return this.#token !== null
  }

  setToken(token: string | null): void {
    this.#token = token
    try {
      if (token === null) sessionStorage.removeItem(KEY)
      else sessionStorage.setItem(KEY, token)
    } catch {
      // It is kept in memory, which is enough for this page.
      return
    }
  }

  /** An address of the service, relative to the page, so that it also works below a folder of a proxy. */
  get base(): string {
    return new URL('.', location.href).href.replace(/\/$/, '')
  }

  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers)
    if (this.#token !== null) headers.set('authorization', `Bearer ${this.#token}`)
    const response = await fetch(`${this.base}${path}`, {
      ...init,
      headers,
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
    })
    if (response.status === 401) this.onUnauthenticated?.()
    return response
  }

  async get(path: string): Promise<Answer> {
    return await answerOf(await this.fetch(path))
  }

  async post(path: string, body: object, more: RequestInit = {}): Promise<Answer> {
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }
    return await answerOf(await this.fetch(path, { ...init, ...more }))
  }
}

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text()
  try {
    const body: unknown = JSON.parse(text)
    return { status: response.status, body: isRecord(body) ? body : {} }
  } catch {
    // A proxy in between answers in its own words; the status says enough.
    return { status: response.status, body: {} }
  }
}

/** What went wrong, in the service's words where it has any. */
export function troubleOf(answer: Answer): string {
  const said = textOf(answer.body['detail']) ?? textOf(answer.body['title'])
  if (answer.status === 401) return 'The service wants a token.'
  if (answer.status === 403) return said ?? 'The token does not have the right for this.'
  return said ?? `The service answered with status ${answer.status}.`
}
