import { etcdRequest } from 'holdfast-servers'

/** A key as etcd shows it. */
export interface EtcdKey {
  readonly key: string
  readonly createRevision: bigint
}

interface Shown {
  readonly key: string
  readonly create_revision: string
}

/** What the recipes ask of etcd, over its gateway that takes JSON. */
export class EtcdClient {
  readonly #port: number

  constructor(url: string) {
    this.#port = Number(new URL(url).port)
  }

  async grantLease(seconds: number): Promise<string> {
    const { ID } = (await this.#ask('/v3/lease/grant', { TTL: seconds })) as { ID: string }
    return ID
  }

  async keepAlive(lease: string): Promise<void> {
    await this.#ask('/v3/lease/keepalive', { ID: lease })
  }

  async revoke(lease: string): Promise<void> {
    await this.#ask('/v3/lease/revoke', { ID: lease })
  }

  /** Puts the key unless it is there, and gives the revision in which it was made. */
  async putOnce(key: string, lease: string): Promise<bigint> {
    const encoded = base64(key)
    const answer = (await this.#ask('/v3/kv/txn', {
      compare: [{ key: encoded, target: 'CREATE', create_revision: '0' }],
      success: [{ request_put: { key: encoded, lease } }],
      failure: [{ request_range: { key: encoded } }],
    })) as { header: { revision: string }; responses: { response_range?: { kvs?: Shown[] } }[] }
    return BigInt(answer.responses[0]?.response_range?.kvs?.[0]?.create_revision ?? answer.header.revision)
  }

  /** The newest key with the prefix that was made before the revision. */
  async lastBefore(prefix: string, revision: bigint): Promise<EtcdKey | null> {
    const { kvs = [] } = (await this.#ask('/v3/kv/range', {
      key: base64(prefix),
      range_end: base64(endOf(prefix)),
      max_create_revision: String(revision - 1n),
      sort_order: 'DESCEND',
      sort_target: 'CREATE',
      limit: '1',
    })) as { kvs?: Shown[] }
    const [last] = kvs
    if (last === undefined) return null
    const key = Buffer.from(last.key, 'base64').toString('utf8')
    return { key, createRevision: BigInt(last.create_revision) }
  }

  async has(key: string): Promise<boolean> {
    const { kvs = [] } = (await this.#ask('/v3/kv/range', { key: base64(key) })) as { kvs?: Shown[] }
    return kvs.length > 0
  }

  /** Whether there was anything to delete. */
  async delete(key: string): Promise<boolean> {
    const answer = (await this.#ask('/v3/kv/deleterange', { key: base64(key) })) as { deleted?: string }
    return answer.deleted === '1'
  }

  async #ask(path: string, body: object): Promise<unknown> {
    return (await etcdRequest(this.#port, path, body)) as unknown
  }
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

/** Prefixes end with a slash here, and what follows a slash in ASCII is a zero. */
function endOf(prefix: string): string {
  return `${prefix.slice(0, -1)}0`
}
