import type { Backend, ClaimView, ResourceView, Shape, Sink } from './backend.js'
import { attempted, withDeadline } from './deadline.js'
import { ClosedError } from './errors.js'
import { fenceOf } from './hold.js'
import type { ClientSettings } from './options.js'
import type { Runtime } from './runtime.js'

/** What a lookout needs of whoever it looks for. */
export interface LookoutContext {
  readonly backend: Backend
  readonly runtime: Runtime
  readonly settings: Pick<ClientSettings, 'requestMs'>
  isClosed(): boolean
  /** How often a claim has passed on among the callers of this process, which the store does not know. Left out: never. */
  handOversOf?(resource: string, shape: Shape, claim: ClaimView): number
}

/** Looks at who holds and who waits, with fences as callers see them. Every request has its deadline. */
export class Lookout {
  readonly #context: LookoutContext

  constructor(context: LookoutContext) {
    this.#context = context
  }

  async inspect(resource: string): Promise<ResourceView> {
    return this.#show(await this.ask(() => this.#context.backend.inspect(resource), resource))
  }

  async *list(prefix: string): AsyncGenerator<ResourceView> {
    this.#refuseClosed()
    const views = this.#context.backend.list(prefix)[Symbol.asyncIterator]()
    try {
      for (;;) {
        const next = await this.ask(() => views.next(), null)
        if (next.done === true) return
        yield this.#show(next.value)
      }
    } finally {
      // Not awaited: a store that did not answer would hold up whoever has stopped listening.
      void attempted(async () => await views.return?.()).catch(() => {})
    }
  }

  async evict(resource: string, ref: string): Promise<boolean> {
    return (await this.ask(() => this.#context.backend.evict(resource, ref), resource)) === 'evicted'
  }

  /** One request to the store. A closed one is asked nothing, and one that does not answer is given up. */
  ask<T>(call: () => Promise<T>, resource: string | null): Promise<T> {
    this.#refuseClosed()
    const { backend, runtime, settings } = this.#context
    const context = { resource, backend: backend.name, silence: () => backend.silence?.() ?? null }
    return withDeadline(runtime.timers, settings.requestMs, true, attempted(call), context)
  }

  /** Of a claim of this client, the fence that its present holder has; of all others, the first that the store granted. */
  #show(view: ResourceView): ResourceView {
    const { resource, shape, holders, waiters } = view
    const show = (claim: ClaimView): ClaimView => {
      if (claim.fence === null || shape === null) return claim
      const handOvers = this.#context.handOversOf?.(resource, shape, claim) ?? 0
      return { ...claim, fence: fenceOf(claim.fence, handOvers) }
    }
    return { ...view, holders: holders.map(show), waiters: waiters.map(show) }
  }

  #refuseClosed(): void {
    if (this.#context.isClosed()) throw new ClosedError({ backend: this.#context.backend.name })
  }
}

/** Opens the store. One that does not answer is given up, so that nobody waits for ever before the first lock. */
export async function openStore(
  backend: Backend,
  { timers, contexts }: Runtime,
  outageMs: number,
  sink: Sink,
): Promise<void> {
  // Its connections and loops serve every caller, and outlive the request that happens to be the first.
  const call = contexts.outside(() => attempted(() => backend.open(sink)))
  try {
    await withDeadline(timers, outageMs, true, call, { resource: null, backend: backend.name })
  } catch (error) {
    await attempted(() => backend.close()).catch(() => {})
    throw error
  }
}
