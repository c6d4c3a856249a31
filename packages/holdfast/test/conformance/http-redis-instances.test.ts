import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, expect, it } from 'vitest'
import type { Backend, Claim, Patience, Verdict } from '../../src/core/backend.js'
import { describeBackend, RelayBackend } from '../../src/testing.js'
import { conformanceRunner } from '../support/conformance-runner.js'
import { openCorner } from './http-stores.js'
import { ServiceInstances } from './service-instances.js'

const INSTANCES = 3
/** After so many cases the next instance is killed, while a case has callers that wait. It is back when the next case begins. */
const CASES_PER_KILL = 30

/** Kills one instance after the other, each in the middle of a case. */
class Killer {
  readonly #instances: ServiceInstances
  #cases = 0
  #kills = 0
  /** Set from the moment at which an instance is killed until it is back. */
  #back: Promise<void> | null = null
  #startAgain: () => void = () => {}

  constructor(instances: ServiceInstances) {
    this.#instances = instances
  }

  get kills(): number {
    return this.#kills
  }

  async caseBegins(): Promise<void> {
    this.#cases += 1
    this.#startAgain()
    await this.#back
  }

  /** Somebody waits: a good moment, if it is time. */
  somebodyWaits(): void {
    const isTime = this.#cases > CASES_PER_KILL * (this.#kills + 1)
    if (!isTime || this.#kills >= this.#instances.size || this.#back !== null) return
    this.#back = this.#killAndRestart(this.#kills)
    this.#kills += 1
  }

  async #killAndRestart(index: number): Promise<void> {
    const next = new Promise<void>((resolve) => {
      this.#startAgain = resolve
    })
    await this.#instances.kill(index)
    await next
    await this.#instances.restart(index)
    this.#back = null
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
const outcome = await sharedStoreFor('redis')
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
  const summary = await describeBackend({ name, ...conformanceRunner, open })
  it('ran every case, and killed each instance once', () => {
    expect(summary.skipped).toEqual([])
    expect(summary.ran.length).toBe(summary.total)
    expect(killer.kills).toBe(INSTANCES)
  })
}
