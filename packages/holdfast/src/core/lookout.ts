import type { Backend, ResourceView, Sink } from './backend.js'
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
}

/** Looks at who holds and who waits, with fences as callers see them. Every request has its deadline. */
export class Lookout {
  readonly #context: LookoutContext

  constructor(context: LookoutContext) {
    this.#context = context
  }

  async inspect(resource: string): Promise<ResourceView> {
    return showFences(await this.ask(() => this.#context.backend.inspect(resource), resource))
  }

  async *list(prefix: string): AsyncGenerator<ResourceView> {
    this.#refuseClosed()
    const views = this.#context.backend.list(prefix)[Symbol.asyncIterator]()
    try {
      for (;;) {
        const next = await this.ask(() => views.next(), null)
        if (next.done === true) return
        yield showFences(next.value)
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
    const context = { resource, backend: backend.name }
    return withDeadline(runtime.timers, settings.requestMs, true, attempted(call), context)
  }

  #refuseClosed(): void {
    if (this.#context.isClosed()) throw new ClosedError({ backend: this.#context.backend.name })
  }
}

function showFences(view: ResourceView): ResourceView {
  const show = (claims: ResourceView['holders']): ResourceView['holders'] =>
    claims.map((claim) => ({ ...claim, fence: claim.fence === null ? null : fenceOf(claim.fence, 0) }))
  return { ...view, holders: show(view.holders), waiters: show(view.waiters) }
}

/** Opens the store. One that does not answer is given up, so that nobody waits for ever before the first lock. */
export async function openStore(
  backend: Backend,
  { timers }: Runtime,
  outageMs: number,
  sink: Sink,
): Promise<void> {
  const call = attempted(() => backend.open(sink))
  try {
    await withDeadline(timers, outageMs, true, call, { resource: null, backend: backend.name })
  } catch (error) {
    await attempted(() => backend.close()).catch(() => {})
    throw error
  }
}
