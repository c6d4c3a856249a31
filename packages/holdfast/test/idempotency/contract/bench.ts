import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { inspect } from 'node:util'
import { expect } from 'vitest'
import { systemRuntime } from '../../../src/client/system.js'
import type { RecordStore, RecordTraits } from '../../../src/core/records.js'
import type { Runtime } from '../../../src/core/runtime.js'
import {
  createIdempotency,
  IDEMPOTENCY_CHANNEL,
  type Idempotency,
  type IdempotencyEvent,
  type IdempotencyOptions,
  type RunContext,
  type RunOptions,
  type Target,
} from '../../../src/idempotency.js'
import { later, PATIENCE_MS, rejectionOf, sleep, until } from '../../../src/testing/conformance/waiting.js'
import { type Around, RelayRecords } from './relay-records.js'

/** Far more than any request takes, because a machine that is busy is not a store that is down. */
const REQUEST_MS = 30_000

/** Stands in every key, input and result, so that it can be looked for where it must not be. */
export const SECRET = 'SECRET-4711'

export interface RunCase {
  /** Begins with the number that the test has in the list of requirements. */
  readonly title: string
  /** It waits for a lease or a retention to end. All of these run at the same time. */
  readonly waits?: true
  readonly applies?: (traits: RecordTraits) => boolean
  run(bench: RunBench): Promise<void>
}

export class Gate {
  readonly passed: Promise<void>
  open: () => void = () => undefined

  constructor() {
    this.passed = new Promise((resolve) => {
      this.open = resolve
    })
  }
}

/** Two clients of one storage, further ones on demand, and everything that they told. */
export class RunBench {
  readonly a: Idempotency
  readonly b: Idempotency
  readonly traits: RecordTraits
  readonly events: IdempotencyEvent[] = []
  readonly #connect: () => Promise<RecordStore>
  readonly #clients: Idempotency[] = []
  readonly #note = (event: unknown): void => void this.events.push(event as IdempotencyEvent)

  private constructor(connect: () => Promise<RecordStore>, a: Idempotency, b: Idempotency) {
    this.#connect = connect
    this.a = a
    this.b = b
    this.#clients.push(a, b)
    this.traits = a.store.traits
    subscribe(IDEMPOTENCY_CHANNEL, this.#note)
  }

  static async open(connect: () => Promise<RecordStore>): Promise<RunBench> {
    const a = await createIdempotency(await connect(), { requestMs: REQUEST_MS })
    await a.migrate()
    return new RunBench(connect, a, await createIdempotency(await connect(), { requestMs: REQUEST_MS }))
  }

  async close(): Promise<void> {
    unsubscribe(IDEMPOTENCY_CHANNEL, this.#note)
    await Promise.all(this.#clients.map((client) => client.close()))
  }

  /** For a lease that shall be seen to end, and yet be long enough to begin with on a machine that stalls. */
  get shortMs(): number {
    return this.lease(3_000)
  }

  /** For a lease that shall be renewed. */
  get keptMs(): number {
    return this.lease(3_000)
  }

  get patienceMs(): number {
    return 3 * this.keptMs + 2 * PATIENCE_MS
  }

  lease(wishMs: number): number {
    const { leaseMinMs, leaseMaxMs } = this.traits
    return Math.min(Math.max(wishMs, leaseMinMs), leaseMaxMs)
  }

  /** One more client, with its own store object. */
  async client(
    options: IdempotencyOptions = {},
    runtime: Runtime = systemRuntime,
    wrap: (store: RecordStore) => RecordStore = (store) => store,
  ): Promise<Idempotency> {
    const client = await createIdempotency(
      wrap(await this.#connect()),
      { requestMs: REQUEST_MS, ...options },
      runtime,
    )
    this.#clients.push(client)
    return client
  }

  /** One more client, of which every call to the store can be seen, and go wrong. */
  async relayed(
    around: Around,
    options: IdempotencyOptions = {},
    traits: Partial<RecordTraits> = {},
  ): Promise<{ readonly client: Idempotency; readonly relay: RelayRecords }> {
    const relay = new RelayRecords(await this.#connect(), around, traits)
    const client = await createIdempotency(relay, { requestMs: REQUEST_MS, ...options })
    this.#clients.push(client)
    return { client, relay }
  }

  readonly target = (input: unknown = { note: SECRET }): Target => {
    const scope = { tenant: 'acme', operation: 'order.create' }
    return { scope, key: `${SECRET}-${randomBytes(9).toString('base64url')}`, input }
  }

  /** Work that was begun and never finished: its process is gone, as far as the store can see. */
  async abandoned(
    target: Target,
    begin: (context: RunContext) => Promise<unknown> = async () => undefined,
    options: RunOptions = {},
  ): Promise<{ readonly fence: bigint }> {
    const client = await this.client({ leaseMs: this.shortMs })
    // The connection is made here, and not in the time of the lease.
    await client.inspect(target)
    const begun = new Gate()
    const fences: bigint[] = []
    const work = async (context: RunContext): Promise<void> => {
      fences.push(context.fence)
      await begin(context)
      begun.open()
      await new Promise(() => undefined)
    }
    const running = client.run<unknown>(target, work, options)
    await Promise.race([begun.passed, later(running)])
    await client.close()
    return { fence: fences[0] ?? assert.fail('The work did not begin.') }
  }

  async untilAbandoned(target: Target): Promise<void> {
    await this.until(async () => (await this.b.inspect(target))?.state === 'abandoned', 'its lease ends')
  }

  async until(check: () => Promise<boolean> | boolean, what: string): Promise<void> {
    const paused = async (): Promise<boolean> => {
      if (await check()) return true
      await sleep(50)
      return false
    }
    await until(paused, what, { limitMs: this.patienceMs })
  }

  /** The events of one key. Where several cases run at once, each looks at its own. */
  async toldOf(target: Target): Promise<readonly IdempotencyEvent['type'][]> {
    const id = (await this.b.inspect(target))?.id ?? ''
    const ref = id.slice(id.lastIndexOf('#') + 1)
    return this.events.filter((event) => event.ref === ref).map(({ type }) => type)
  }

  /** Nothing that was told may have a key, an input or a result in it. */
  checkSecrecy(): void {
    expect(this.events.length).toBeGreaterThan(0)
    for (const event of this.events) {
      expect(inspect(event, { depth: 12, showHidden: true })).not.toContain(SECRET)
    }
  }
}

/** What the call rejects with, which must have this code and give nothing away. */
export async function refusal(call: Promise<unknown>, code: string, limitMs?: number): Promise<Error> {
  const error = await rejectionOf(call, limitMs)
  assert(error instanceof Error)
  expect(error).toHaveProperty('code', code)
  expect(inspect(error, { depth: 12, showHidden: true })).not.toContain(SECRET)
  return error
}

/** Work that must not be done. */
export async function never(): Promise<never> {
  throw new assert.AssertionError({ message: 'The work ran, and must not.' })
}

/** Work that says how often it was done. */
export class Counted<T> {
  runs = 0
  readonly #value: T

  constructor(value: T) {
    this.#value = value
  }

  readonly work = async (): Promise<T> => {
    this.runs += 1
    return this.#value
  }
}
