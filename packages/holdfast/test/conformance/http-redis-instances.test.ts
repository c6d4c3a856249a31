import { storeFor } from 'holdfast-servers'
import { afterAll, describe, expect, it } from 'vitest'
import type { Backend, Claim, Patience, Verdict } from '../../src/core/backend.js'
import { describeBackend, RelayBackend } from '../../src/testing.js'
import { openCorner } from './http-stores.js'
import { ServiceInstances } from './service-instances.js'

const INSTANCES = 3
/** After so many cases the next instance is killed, while a case has callers that wait. It is back when the case ends. */
const CASES_PER_KILL = 30

/** Kills one instance after the other, each in the middle of a case. */
class Killer {
  readonly #instances: ServiceInstances
  #cases = 0
  #kills = 0
  #killing: Promise<void> | null = null
  #dead: number | null = null

  constructor(instances: ServiceInstances) {
    this.#instances = instances
  }

  get kills(): number {
    return this.#kills
  }

  async caseBegins(): Promise<void> {
    this.#cases += 1
    await this.#killing
    if (this.#dead === null) return
    await this.#instances.restart(this.#dead)
    this.#dead = null
  }

  /** Somebody waits: a good moment, if it is time. */
  somebodyWaits(): void {
    const isTime = this.#cases > CASES_PER_KILL * (this.#kills + 1)
    if (!isTime || this.#kills >= this.#instances.size || this.#dead !== null) return
    this.#dead = this.#kills
    this.#kills += 1
    this.#killing = this.#instances.kill(this.#dead)
  }

  over(backend: Backend): Backend {
    return new KilledUnder(backend, this)
  }
}

class KilledUnder extends RelayBackend {
  readonly #killer: Killer

  constructor(inner: Backend, killer: Killer) {
    super(inner)
    this.#killer = killer
  }

  override async attempt(claim: Claim, patience: Patience): Promise<Verdict> {
    const verdict = await super.attempt(claim, patience)
    // The core asks again at once, so that the kill falls into the middle of that.
    if (verdict.kind === 'waiting') setImmediate(() => this.#killer.somebodyWaits())
    return verdict
  }
}

const name = 'http over redis, three instances of which one after the other is killed'
const outcome = await storeFor('redis')
if (outcome.kind === 'not run') it.skip(`${name} (not run: ${outcome.reason})`)
else {
  const instances = await ServiceInstances.start(outcome.store.url, INSTANCES)
  const killer = new Killer(instances)
  afterAll(async () => {
    await instances.close()
    await outcome.store.dispose()
  })
  const open = async () => {
    await killer.caseBegins()
    return await openCorner({ url: () => instances.url(), wrap: (backend) => killer.over(backend) })
  }
  const summary = await describeBackend({ name, describe, it, open })
  it('ran every case, and killed each instance once', () => {
    expect(summary.skipped).toEqual([])
    expect(summary.ran.length).toBe(summary.total)
    expect(killer.kills).toBe(INSTANCES)
  })
}
