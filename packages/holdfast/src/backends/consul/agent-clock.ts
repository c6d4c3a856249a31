import { monotonicMs } from '../shared/clock.js'
import type { ConsulClient } from './client.js'
import { undated } from './errors.js'

/** How long the last date is gone on from. Clocks do not drift apart by much in that time. */
const KNOWN_MS = 10_000

/**
 * What time it is by the clock of an agent, as far as the dates of its answers tell: between two bounds. Consul itself tells
 * no time, and neither do its servers; so this is for how long records stay, and never for who owns them.
 */
export class AgentClock {
  readonly #client: ConsulClient

  constructor(client: ConsulClient) {
    this.#client = client
  }

  /** It is this late at least. What is over by it is over by the agent's clock, too. */
  async earliestMs(): Promise<number> {
    await this.#hear()
    return this.#client.dates.earliestMs(monotonicMs())
  }

  /** It is this late at most. What shall last from now on is counted from it. */
  async latestMs(): Promise<number> {
    await this.#hear()
    return this.#client.dates.latestMs(monotonicMs())
  }

  async #hear(): Promise<void> {
    const { dates } = this.#client
    const now = monotonicMs()
    if (now - dates.heardAt <= KNOWN_MS) return
    await this.#client.ask({ method: 'GET', path: '/v1/status/leader' })
    if (dates.heardAt < now) throw undated()
  }
}
