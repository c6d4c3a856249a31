import type { Activity } from './activity.js'

/** For the page of one lock: more than fits on a screen. */
const PER_NAME_MAX = 200
/** For all of them: about ten megabytes. */
const OVERALL_MAX = 20_000

/** What was seen at each name, newest last. The names where least happened lately are forgotten first. */
export class History {
  readonly #byName = new Map<string, Activity[]>()
  readonly #perNameMax: number
  readonly #overallMax: number
  #count = 0

  constructor(perNameMax = PER_NAME_MAX, overallMax = OVERALL_MAX) {
    this.#perNameMax = perNameMax
    this.#overallMax = overallMax
  }

  get count(): number {
    return this.#count
  }

  add(activity: Activity): void {
    const { name } = activity
    const kept = this.#byName.get(name) ?? []
    // The order of a map is the order of insertion, so the name that was put in longest ago comes first.
    this.#byName.delete(name)
    this.#byName.set(name, kept)
    kept.push(activity)
    this.#count += 1
    // Cut by half the bound at once: taking one from the front for each that comes would move all of them each time.
    if (kept.length > this.#perNameMax * 1.5) {
      this.#count -= kept.splice(0, kept.length - this.#perNameMax).length
    }
    while (this.#count > this.#overallMax) this.#forgetOldest(name)
  }

  of(name: string): readonly Activity[] {
    return (this.#byName.get(name) ?? []).slice(-this.#perNameMax)
  }

  #forgetOldest(butNot: string): void {
    for (const [name, kept] of this.#byName) {
      if (name === butNot) {
        this.#count -= kept.splice(0, Math.ceil(kept.length / 2)).length
        return
      }
      this.#byName.delete(name)
      this.#count -= kept.length
      return
    }
  }
}
