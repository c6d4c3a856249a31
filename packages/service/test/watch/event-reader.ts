/** Reads server-sent events as a browser does, and waits for those that a test looks for. */

import { get, type IncomingMessage } from 'node:http'

export interface ReadEvent {
  readonly event: string
  readonly data: Record<string, unknown>
}

/** Nothing takes this long that works, however busy the machine is. */
const DEADLINE_MS = 120_000

export class EventReader {
  readonly events: ReadEvent[] = []
  readonly #response: IncomingMessage
  readonly #watching = new Set<() => void>()
  #text = ''
  hasEnded = false

  constructor(response: IncomingMessage) {
    this.#response = response
    response.setEncoding('utf8')
    response.on('data', (chunk: string) => this.#read(chunk))
    response.once('close', () => {
      this.hasEnded = true
      this.#tell()
    })
    response.on('error', () => {})
  }

  get headers(): IncomingMessage['headers'] {
    return this.#response.headers
  }

  of(event: string): readonly Record<string, unknown>[] {
    return this.events.filter((each) => each.event === event).map(({ data }) => data)
  }

  /** Resolves with the first answer that is not undefined, asked again with each event. */
  until<T>(what: string, find: () => T | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.#watching.delete(check)
        const last = this.events.slice(-5).map((each) => JSON.stringify(each).slice(0, 300))
        reject(new Error(`never seen: ${what}; the last were ${last.join('\n')}`))
      }, DEADLINE_MS)
      const check = (): void => {
        const found = find()
        if (found === undefined) return
        clearTimeout(late)
        this.#watching.delete(check)
        resolve(found)
      }
      this.#watching.add(check)
      check()
    })
  }

  activity(name: string, kind: string): Promise<Record<string, unknown>> {
    return this.until(`${kind} ${name}`, () =>
      this.of('activity').find((each) => each.name === name && each.kind === kind),
    )
  }

  close(): void {
    this.#response.destroy()
  }

  #read(chunk: string): void {
    this.#text += chunk
    for (let end = this.#text.indexOf('\n\n'); end >= 0; end = this.#text.indexOf('\n\n')) {
      const block = this.#text.slice(0, end)
      this.#text = this.#text.slice(end + 2)
      const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? []
      if (event === undefined || data === undefined) continue
      this.events.push({ event, data: JSON.parse(data) as Record<string, unknown> })
    }
    this.#tell()
  }

  #tell(): void {
    for (const check of this.#watching) check()
  }
}

export function listenTo(url: string, path = '/v1/events', token?: string): Promise<EventReader> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  return new Promise((resolve, reject) => {
    const request = get(`${url}${path}`, { headers, agent: false }, (response) => {
      if (response.statusCode === 200) resolve(new EventReader(response))
      else {
        response.resume()
        reject(Object.assign(new Error(`status ${response.statusCode}`), { status: response.statusCode }))
      }
    })
    request.once('error', reject)
  })
}
