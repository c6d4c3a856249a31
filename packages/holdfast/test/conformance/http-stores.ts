import { randomBytes } from 'node:crypto'
import { openRemote } from '../../src/backends/http/open.js'
import { createLocks } from '../../src/client/client.js'
import type {
  Backend,
  Claim,
  Eviction,
  Guarantees,
  Patience,
  Release,
  Renewal,
  RenewRequest,
  ResourceView,
  Verdict,
} from '../../src/core/backend.js'
import { type OpenedStore, RelayBackend } from '../../src/testing.js'
import { killWhileHolding } from './crash-child.js'

/** Names of its own for each case, on one service that all cases share: it cannot be told to keep them apart. */
export class Corner extends RelayBackend {
  readonly #corner: string

  constructor(inner: Backend, corner: string) {
    super(inner)
    this.#corner = corner
  }

  override get guarantees(): Guarantees {
    const { guarantees } = this.inner
    return { ...guarantees, nameBytesMax: guarantees.nameBytesMax - this.#corner.length }
  }

  override attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    return super.attempt(this.#inside(claim), patience)
  }

  override renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return super.renew(requests.map((request) => ({ ...request, claim: this.#inside(request.claim) })))
  }

  override release(claim: Claim): Promise<Release> {
    return super.release(this.#inside(claim))
  }

  override async inspect(resource: string): Promise<ResourceView> {
    return { ...(await super.inspect(this.#corner + resource)), resource }
  }

  override async *list(prefix: string): AsyncGenerator<ResourceView> {
    for await (const view of super.list(this.#corner + prefix)) {
      yield { ...view, resource: view.resource.slice(this.#corner.length) }
    }
  }

  override evict(resource: string, ref: string): Promise<Eviction> {
    return super.evict(this.#corner + resource, ref)
  }

  #inside(claim: Claim): Claim {
    return { ...claim, resource: this.#corner + claim.resource }
  }
}

export interface RemoteCases {
  /** The URL for the next client. */
  readonly url: () => string
  /** What stands between the clients and the service. */
  readonly wrap?: (backend: Backend) => Backend
}

/** One case: a corner of its own at the service. */
export async function openCorner({ url, wrap = (backend) => backend }: RemoteCases): Promise<OpenedStore> {
  const corner = `${randomBytes(5).toString('hex')}:`
  const backend = async (): Promise<Backend> => new Corner(wrap(await openRemote(url())), corner)
  const operator = await createLocks(await backend())
  return {
    connect: async (settings, outer = (each) => each) => createLocks(outer(await backend()), settings),
    sever: async (name) => void (await operator.evict(name, { reason: 'severed by the suite' })),
    crash: (name, { ttlMs }) =>
      killWhileHolding('./redis-crash-child.mjs', [url(), corner + name, String(ttlMs)]),
    async leftovers() {
      const names: string[] = []
      for await (const { resource } of operator.list()) names.push(resource)
      return names
    },
    close: () => operator.close(),
  }
}
