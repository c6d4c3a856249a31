import type { ResourceView } from 'holdfast'

/** A view of so many claims is used again for one millisecond. Small queues are always looked at anew. */
const CLAIMS_PER_MS = 20

/**
 * Looks at a name for refused callers. If many callers wait for one name, many are refused at the same time, and a look
 * costs as much as there are claims; so they share it. It is for people, and decides nothing.
 */
export class Glances {
  readonly #inspect: (name: string) => Promise<ResourceView>
  readonly #shared = new Map<string, Promise<ResourceView | null>>()

  constructor(inspect: (name: string) => Promise<ResourceView>) {
    this.#inspect = inspect
  }

  /** Who stands in the way is good to know, but an answer does not fail for it: null where the store does not say. */
  at(name: string): Promise<ResourceView | null> {
    const known = this.#shared.get(name)
    if (known !== undefined) return known
    const looking = this.#inspect(name).catch(() => null)
    this.#shared.set(name, looking)
    void looking.then((view) => this.#keep(name, view))
    return looking
  }

  #keep(name: string, view: ResourceView | null): void {
    const forMs = view === null ? 0 : (view.holders.length + view.waiters.length) / CLAIMS_PER_MS
    if (forMs < 1) this.#shared.delete(name)
    else setTimeout(() => this.#shared.delete(name), forMs).unref()
  }
}
