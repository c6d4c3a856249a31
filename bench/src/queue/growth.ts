/** What a turn costs, and what waiting costs the server, as the queue for one name gets longer. */

import { randomUUID } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { openBackend, openCounter } from 'holdfast/service'
import { storeFor } from 'holdfast-servers'
import { type Bench, type Findings, milliseconds, sleep } from '../group.js'
import { atMost, type Row } from '../report.js'
import { familyCpuMs } from './processor.js'

type Counter = Awaited<ReturnType<typeof openCounter>>
type Claim = Parameters<Counter['release']>[0]

/** A queue that does not get on is given up after this long. */
const LIMIT_MS = 60_000
const WAIT_MS = 600_000
const TTL_MS = 30_000
/** The length that longer queues are compared with. */
const HUNDRED = 100

export interface Store {
  readonly name: string
  readonly url: string
  /** The process of the server, where there is one. */
  readonly pid: number | null
  /** How much dearer a turn of a longer queue may be than one of a hundred waiters; left out: that is for information. */
  readonly mostTimes?: number
}

/** Starts a server of this kind, and ends it. */
export async function withServer<T>(name: string, use: (store: Store) => Promise<T>): Promise<T> {
  const outcome = await storeFor(name)
  if (outcome.kind === 'not run') throw new Error(`${name} cannot run here: ${outcome.reason}`)
  const { store } = outcome
  const control = store.control as { readonly pid?: number } | undefined
  try {
    return await use({ name, url: store.url, pid: control?.pid ?? null })
  } finally {
    await store.dispose()
  }
}

export async function growth(bench: Bench, store: Store, sizes: readonly number[]): Promise<Findings> {
  const rows: Row[] = []
  let hundredMs = Number.NaN
  for (const size of sizes) {
    bench.say(`${store.name}, ${size} waiters`)
    const { perTurnMs, ...row } = await measured(store, size, bench.quick ? 2_000 : 5_000)
    if (size === HUNDRED) hundredMs = perTurnMs
    const bar = store.mostTimes === undefined ? {} : { bar: atMost(store.mostTimes) }
    const compared = size <= HUNDRED ? {} : { against: '100 waiters', figure: perTurnMs / hundredMs, ...bar }
    rows.push({ ...row, ...compared })
  }
  return { title: 'Long queues: all wait for one name, and each releases at once', rows }
}

async function measured(store: Store, size: number, idleMs: number): Promise<Row & { perTurnMs: number }> {
  const backend = await openBackend(store.url, { servesMany: true })
  await backend.migrate?.()
  const counter = await openCounter(backend)
  const queue = new Queue(counter, size)
  try {
    await queue.join()
    const idle = await queue.cpuWhileIdle(store.pid, idleMs)
    await queue.serve()
    const cpu = idle === null ? '' : `; server ${(idle * 100).toFixed(1)} % of a core while they wait`
    const what = `${store.name}, ${size.toLocaleString('en')} waiters`
    return { what, value: `${queue.result()}${cpu}`, perTurnMs: queue.perTurnMs }
  } finally {
    await counter.close()
  }
}

/** One holder, and the waiters behind it. */
class Queue {
  readonly #counter: Counter
  readonly #size: number
  readonly #resource = `queue-${randomUUID()}`
  readonly #holder = this.#claim()
  readonly #turns: number[] = []
  readonly #failures = new Map<string, number>()
  #waiters: readonly Promise<void>[] = []

  constructor(counter: Counter, size: number) {
    this.#counter = counter
    this.#size = size
  }

  async join(): Promise<void> {
    const ask = { stayMs: 0, signal: null, mayReturn: false }
    const first = await this.#counter.acquire({ ...ask, claim: this.#holder, waitMs: 0 })
    if (first.kind !== 'granted') throw new Error('The lock is not free at first.')
    this.#waiters = Array.from({ length: this.#size }, async () => {
      const claim = this.#claim()
      try {
        const answer = await this.#counter.acquire({ ...ask, claim, waitMs: WAIT_MS })
        if (answer.kind === 'granted') this.#turns.push(performance.now())
        else this.#failed(answer.kind)
        await this.#counter.release(claim)
      } catch (error) {
        this.#failed(error instanceof Error ? error.name : String(error))
      }
    })
    const endsAt = performance.now() + LIMIT_MS
    while ((await this.#waiting()) + this.#failedCount < this.#size && performance.now() < endsAt)
      await sleep(250)
  }

  /** Which part of a processor the server uses while nothing happens; null where it is not known. */
  async cpuWhileIdle(pid: number | null, ms: number): Promise<number | null> {
    const before = pid === null ? null : await familyCpuMs(pid)
    await sleep(ms)
    const after = pid === null ? null : await familyCpuMs(pid)
    return before === null || after === null ? null : (after - before) / ms
  }

  async serve(): Promise<void> {
    await this.#counter.release(this.#holder)
    await Promise.race([Promise.all(this.#waiters), sleep(LIMIT_MS)])
  }

  /** Infinite for a queue that did not come to its end. */
  get perTurnMs(): number {
    return this.#turns.length === this.#size ? this.#meanMs : Number.POSITIVE_INFINITY
  }

  get #meanMs(): number {
    const { length } = this.#turns
    return length > 1 ? ((this.#turns.at(-1) ?? 0) - (this.#turns[0] ?? 0)) / (length - 1) : Number.NaN
  }

  result(): string {
    const { length } = this.#turns
    const failures = [...this.#failures].map(([what, count]) => `, ${count} × ${what}`).join('')
    const served = length === this.#size ? '' : `; ${length} served in ${LIMIT_MS / 1_000} s${failures}`
    return `${milliseconds(this.#meanMs)} a turn${served}`
  }

  get #failedCount(): number {
    return [...this.#failures.values()].reduce((sum, count) => sum + count, 0)
  }

  #failed(what: string): void {
    this.#failures.set(what, (this.#failures.get(what) ?? 0) + 1)
  }

  /** A store that is too busy to answer this has not let all of them join. */
  async #waiting(): Promise<number> {
    try {
      return (await this.#counter.inspect(this.#resource)).waiters.length
    } catch {
      return 0
    }
  }

  #claim(): Claim {
    return {
      id: randomUUID(),
      resource: this.#resource,
      shape: { kind: 'mutex', limit: 1 },
      weight: 1,
      ttlMs: TTL_MS,
      owner: { host: 'bench', pid: process.pid, client: 'bench' },
      note: null,
    }
  }
}
