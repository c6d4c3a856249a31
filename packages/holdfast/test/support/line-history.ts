/** Random histories over several clients of a database, on the pure rule and on the server, which must agree. */

import type { Backend, Claim, Shape, Verdict } from '../../src/core/backend.js'
import { refOf } from '../../src/core/names.js'
import { claimOf } from './claims.js'
import { LineModel, randomOf } from './line-model.js'
import { expectSame } from './same.js'

const SHAPES: readonly Shape[] = [
  { kind: 'mutex', limit: 1 },
  { kind: 'semaphore', limit: 3 },
  { kind: 'read-write', limit: 5 },
]
const STEPS = 30

/** Clients of one database whose clock is in the hands of the test. */
export interface TimedClients {
  readonly backends: readonly Backend[]
  /** Milliseconds since 1970. */
  readonly now: number
  goTo(now: number): Promise<void>
}

/** A part of a routine or statement, and what stands there instead. */
export type PlantedFault = readonly [fault: string, find: string, replace: string]

/** Rewrites texts as the fault asks for; `found` tells how often it was found. */
export function planting(find: string, replace: string): { change(text: string): string; found(): number } {
  let count = 0
  return {
    change(text) {
      if (text.includes(find)) count += 1
      return text.replaceAll(find, () => replace)
    },
    found: () => count,
  }
}

/** One run of random steps, on the model and on the server, which must agree. */
class History {
  readonly #random: (below: number) => number
  readonly #resources: readonly string[]
  readonly #claims: Claim[]
  readonly #limit: number
  readonly #fences = new Map<string, bigint | null>()
  readonly #clients: TimedClients
  /** The fences are the server's: the model checks that they grow. */
  #drawn = 0n
  readonly #model = new LineModel((last) => (this.#drawn > last ? this.#drawn : last + 1n))

  constructor(seed: number, clients: TimedClients) {
    const random = randomOf(seed)
    this.#random = random
    this.#clients = clients
    this.#resources = [`h${seed}:x`, `h${seed}:y`]
    const shape = SHAPES[random(SHAPES.length)] as Shape
    this.#limit = shape.limit
    this.#claims = Array.from({ length: 6 }, (_, index) =>
      claimOf(this.#resources[index % 2] as string, {
        id: `h${seed}-${index}`,
        // Now and then one that does not fit.
        shape: random(25) === 0 ? { kind: 'semaphore', limit: 9 } : shape,
        weight: 1 + random(shape.limit),
        ttlMs: 200 + random(2_000),
        note: random(2) === 0 ? null : `a note, "quoted" ${index}`,
      }),
    )
  }

  async step(label: string): Promise<void> {
    const random = this.#random
    const { backends, now } = this.#clients
    const backend = backends[random(backends.length)] as Backend
    const index = random(this.#claims.length)
    const claim = this.#claims[index] as Claim
    const what = random(12)
    if (what < 5) await this.#attempt(backend, index, label)
    else if (what < 7) await this.#renew(backend, label)
    else if (what < 9) {
      const removed = this.#model.remove(claim.resource, ({ id }) => id === claim.id, now)
      expectSame(await backend.release(claim), removed ? 'released' : 'gone', label)
    } else if (what === 9) {
      const ref = refOf(claim.id)
      const removed = this.#model.remove(claim.resource, ({ id }) => refOf(id) === ref, now)
      expectSame(await backend.evict(claim.resource, ref), removed ? 'evicted' : 'gone', label)
    } else {
      // Often exactly to the end of something, which is where an off-by-one lives.
      const end = this.#model.view(claim.resource, now).holders[0]?.remainingMs ?? null
      await this.#clients.goTo(now + (random(3) === 0 && end !== null ? end : random(400)))
    }
    for (const resource of this.#resources) {
      expectSame(await backend.inspect(resource), this.#model.view(resource, this.#clients.now), label)
    }
  }

  async #attempt(backend: Backend, index: number, label: string): Promise<void> {
    const random = this.#random
    const patience = { waitMs: random(3) === 0 ? 0 : 1_000, leaseMs: 100 + random(500) }
    let claim = this.#claims[index] as Claim
    if (random(6) === 0) claim = this.#claims[index] = { ...claim, weight: 1 + random(this.#limit) }
    const verdict: Verdict = await backend.attempt(claim, patience)
    this.#drawn = 'fence' in verdict ? (verdict.fence as bigint) : 0n
    expectSame(verdict, this.#model.attempt(claim, patience, this.#clients.now), label)
    // Now and then the old one is kept, as by a process that does not know of its new place yet.
    if ('fence' in verdict && random(5) > 0) this.#fences.set(claim.id, verdict.fence)
  }

  async #renew(backend: Backend, label: string): Promise<void> {
    const random = this.#random
    const requests = this.#claims
      .slice(random(3), 3 + random(4))
      .map((claim) => ({ claim, fence: this.#fences.get(claim.id) ?? null, leaseMs: random(900) }))
    const expected = requests.map((request) => this.#model.renew(request, this.#clients.now))
    expectSame(await backend.renew(requests), expected, label)
  }
}

export async function compareHistories(clients: TimedClients, seeds: readonly number[]): Promise<void> {
  for (const seed of seeds) {
    await clients.goTo(clients.now + 60_000)
    const history = new History(seed, clients)
    for (let step = 0; step < STEPS; step += 1) await history.step(`seed ${seed}, step ${step}`)
  }
}
