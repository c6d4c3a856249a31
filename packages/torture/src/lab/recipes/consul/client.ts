/** A key as Consul shows it. */
export interface ConsulKey {
  readonly value: string
  readonly modifyIndex: number
  readonly session: string | null
}

interface Shown {
  readonly Value: string | null
  readonly ModifyIndex: number
  readonly Session?: string
}

/** What the recipes ask of Consul. */
export class ConsulClient {
  readonly #base: string

  constructor(url: string) {
    this.#base = `http://${new URL(url).host}/v1`
  }

  async createSession(options: { readonly ttlMs: number; readonly lockDelay: string }): Promise<string> {
    const body = { TTL: `${Math.ceil(options.ttlMs / 1_000)}s`, LockDelay: options.lockDelay, Checks: [] }
    const { ID } = JSON.parse(await this.#ask('PUT', '/session/create', JSON.stringify(body))) as {
      ID: string
    }
    return ID
  }

  /** Rejects if the session is over. */
  async renewSession(session: string): Promise<void> {
    await this.#ask('PUT', `/session/renew/${session}`)
  }

  async destroySession(session: string): Promise<void> {
    await this.#ask('PUT', `/session/destroy/${session}`)
  }

  async get(key: string): Promise<ConsulKey | null> {
    const response = await fetch(`${this.#base}/kv/${key}`)
    if (response.status === 404) return null
    const [shown] = JSON.parse(await textOf(response)) as [Shown]
    return {
      value: Buffer.from(shown.Value ?? '', 'base64').toString('utf8'),
      modifyIndex: shown.ModifyIndex,
      session: shown.Session ?? null,
    }
  }

  /** Whether it was done: `acquire`, `release` and `cas` can be refused. */
  async put(key: string, value: string, query = ''): Promise<boolean> {
    return (await this.#ask('PUT', `/kv/${key}${query === '' ? '' : `?${query}`}`, value)).trim() === 'true'
  }

  async delete(key: string): Promise<void> {
    await this.#ask('DELETE', `/kv/${key}`)
  }

  async #ask(method: string, path: string, body?: string): Promise<string> {
    return await textOf(await fetch(this.#base + path, { method, ...(body === undefined ? {} : { body }) }))
  }
}

async function textOf(response: Response): Promise<string> {
  const text = await response.text()
  if (!response.ok) throw new Error(`${response.status}: ${text.trim()}`)
  return text
}
