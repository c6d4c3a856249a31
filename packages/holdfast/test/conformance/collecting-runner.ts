import type { RunnerDescribe, RunnerIt } from '../../src/testing.js'

export interface CollectedCase {
  readonly path: readonly string[]
  readonly title: string
  readonly skipped: boolean
  readonly body: () => Promise<void>
}

/** A runner that only takes note of what it is given, so that a test can run it and see it fail. */
export class CollectingRunner {
  readonly cases: CollectedCase[] = []
  readonly #path: string[] = []
  readonly describe: RunnerDescribe
  readonly it: RunnerIt

  constructor() {
    this.describe = (title, body) => {
      this.#path.push(title)
      body()
      this.#path.pop()
    }
    const collect = (skipped: boolean) => (title: string, body: () => Promise<void>) => {
      this.cases.push({ path: [...this.#path], title, skipped, body })
    }
    this.it = Object.assign(collect(false), { skip: collect(true) })
  }

  /** The cases of one theme. */
  of(theme: string): CollectedCase[] {
    return this.cases.filter(({ path }) => path.at(-1) === theme)
  }

  /** Runs one case, and rejects as it does. */
  async run(theme: string, title: string): Promise<void> {
    const found = this.of(theme).find((each) => each.title === title && !each.skipped)
    if (found === undefined) throw new Error(`The suite has no case ${theme}: ${title}`)
    await found.body()
  }
}
