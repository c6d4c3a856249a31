/** Names are the caller's own and without number, so a metric shows groups of them, and only so many. */

export const OTHER = 'other'

export const GROUPS_MAX = 100

export class NameGroups {
  readonly #groupOf: (name: string) => string
  readonly #max: number
  readonly #known = new Set<string>()

  constructor(groupOf: (name: string) => string, max: number) {
    this.#groupOf = groupOf
    this.#max = max
  }

  /** The group of a name; `other` when there are too many groups, or when the caller's function gives none. */
  of(name: string): string {
    const group = this.#ask(name)
    if (group === null || this.#known.has(group)) return group ?? OTHER
    if (this.#known.size >= this.#max) return OTHER
    this.#known.add(group)
    return group
  }

  /** Whatever is wrong with the caller's function must not reach whoever takes a lock. */
  #ask(name: string): string | null {
    try {
      const group: unknown = this.#groupOf(name)
      return typeof group === 'string' && group !== '' ? group : null
    } catch {
      return null
    }
  }
}
