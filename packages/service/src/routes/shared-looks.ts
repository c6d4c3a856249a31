import type { ResourceView } from 'holdfast'

interface Looks {
  /** Waits for the look that is under way, and then looks. */
  next: Promise<ResourceView> | null
  current: Promise<unknown>
}

/**
 * Looks at single names. There is one look at a name at a time, because it costs as much as there are claims. Requests
 * that come meanwhile share the next look, which begins after they came, so that each sees what was done before it.
 */
export class SharedLooks {
  readonly #inspect: (name: string) => Promise<ResourceView>
  readonly #byName = new Map<string, Looks>()

  constructor(inspect: (name: string) => Promise<ResourceView>) {
    this.#inspect = inspect
  }

  async at(name: string): Promise<ResourceView> {
    const looks = this.#byName.get(name)
    if (looks === undefined) {
      const begun: Looks = { next: null, current: Promise.resolve() }
      this.#byName.set(name, begun)
      return await this.#look(name, begun)
    }
    looks.next ??= this.#after(name, looks)
    return await looks.next
  }

  async #after(name: string, looks: Looks): Promise<ResourceView> {
    await looks.current
    looks.next = null
    return await this.#look(name, looks)
  }

  #look(name: string, looks: Looks): Promise<ResourceView> {
    const looking = this.#inspect(name)
    const over = (): void => {
      if (looks.next === null) this.#byName.delete(name)
    }
    looks.current = looking.then(over, over)
    return looking
  }
}
