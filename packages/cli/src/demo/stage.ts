import { readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import type { ResourceView } from 'holdfast'
import { formatDuration } from '../format/duration.js'
import { pause } from '../interruption.js'
import type { Killed, Seen, Takeover } from './findings.js'
import { type FromWorker, journalFile, parseJournal, readCounter } from './protocol.js'
import { Worker } from './troupe.js'
import type { DemoEvent, Snapshot } from './view.js'

export interface StageSetup {
  readonly workers: number
  readonly totalMs: number
  readonly url: string
  readonly folder: string
}

/** These bound how long to wait for something that must come; no outcome depends on how fast it comes. */
const START_MS_MAX = 12_000
const LINGER_MS_MAX = 8_000
const TAKEOVER_MS_MAX = 12_000

const POLL_MS = 20

/** The kill comes when everybody has seen some hand-overs go well. */
const KILL_AT = 0.35
const GRANTS_BEFORE_KILL = 5

/** How long the worker that will be killed is seen to hold the lock. */
const LINGER_SEEN_MS = 500
const AFTER_TAKEOVER_MS = 1_500

/** What happens in the demonstration: workers contend, one is killed, another one takes over. */
export class Stage {
  readonly #setup: StageSetup
  readonly #startedAt = performance.now()
  readonly #workers: Worker[]
  readonly #events: DemoEvent[] = []
  readonly #failures: string[] = []
  readonly #onEvent: (event: DemoEvent) => void
  #grants = 0
  #lingering: Killed | null = null
  #killed: (Killed & { readonly atMs: number }) | null = null
  #takeover: Takeover | null = null

  constructor(setup: StageSetup, onEvent: (event: DemoEvent) => void) {
    this.#setup = setup
    this.#onEvent = onEvent
    const { url, folder } = setup
    this.#workers = Array.from(
      { length: setup.workers },
      (_, index) =>
        new Worker({ worker: index + 1, url, folder }, (from, message) => this.#hear(from, message)),
    )
  }

  get elapsedMs(): number {
    return performance.now() - this.#startedAt
  }

  snapshot(view: ResourceView | null): Snapshot {
    return {
      elapsedMs: this.elapsedMs,
      totalMs: this.#setup.totalMs,
      workers: this.#workers,
      holders: view?.holders ?? [],
      waiters: view?.waiters ?? [],
      counter: readCounter(this.#setup.folder),
      events: this.#events,
    }
  }

  /** Plays to the end, or until the signal aborts or something that must come does not. */
  async play(signal: AbortSignal): Promise<void> {
    this.#note(`${this.#setup.workers} workers start, each a process of its own`)
    if (!(await this.#until(() => this.#grants >= GRANTS_BEFORE_KILL, START_MS_MAX, signal))) return
    this.#note('the lock goes from hand to hand')
    await pause(this.#setup.totalMs * KILL_AT - this.elapsedMs, signal)
    await this.#killHolder(signal)
    if (
      this.#killed !== null &&
      (await this.#until(() => this.#takeover !== null, TAKEOVER_MS_MAX, signal))
    ) {
      await pause(Math.max(this.#setup.totalMs - this.elapsedMs, AFTER_TAKEOVER_MS), signal)
    }
  }

  /** Ends every worker, by its own process id, and settles when none is left. */
  async end(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.leave()))
  }

  seen(): Seen {
    const { folder } = this.#setup
    return {
      journal: parseJournal(readFileSync(journalFile(folder), 'utf8')),
      counter: readCounter(folder),
      killed: this.#killed,
      takeover: this.#takeover,
      failures: this.#failures,
    }
  }

  async #killHolder(signal: AbortSignal): Promise<void> {
    const victim = this.#workers.find((worker) => worker.state === 'waiting') ?? this.#workers[0]
    if (victim === undefined || signal.aborted) return
    victim.tell({ type: 'linger' })
    if (!(await this.#until(() => this.#lingering !== null, LINGER_MS_MAX, signal))) return
    await pause(LINGER_SEEN_MS, signal)
    if (this.#lingering === null || signal.aborted) return
    victim.kill()
    this.#killed = { ...this.#lingering, atMs: this.elapsedMs }
    this.#note(
      `kill -9 ${victim.pid}: ${victim.name} dies while it holds the lock, fence ${this.#killed.fence}`,
    )
    this.#note('nobody can have the lock until the lease of the dead worker ends')
  }

  #hear(worker: Worker, message: FromWorker): void {
    switch (message.type) {
      case 'granted':
        this.#granted(worker, BigInt(message.fence), message.lingers)
        break
      case 'lost':
        // On a machine that stands still for longer than the lease, this is right and harms nothing.
        this.#note(`${worker.name} lost the lock, because the machine stood still, and starts over`)
        break
      case 'failed':
        this.#failures.push(`${worker.name} failed: ${message.message}`)
        break
      case 'ready':
      case 'waiting':
      case 'counted':
        break
    }
  }

  #granted(worker: Worker, fence: bigint, lingers: boolean): void {
    this.#grants += 1
    if (lingers) this.#lingering = { worker: worker.number, fence }
    if (this.#killed === null || this.#takeover !== null) return
    const afterMs = this.elapsedMs - this.#killed.atMs
    this.#takeover = { worker: worker.number, fence, afterMs }
    this.#note(
      `${worker.name} takes over after ${formatDuration(afterMs)}, fence ${this.#killed.fence} -> ${fence}`,
    )
  }

  #note(text: string): void {
    const event = { atMs: this.elapsedMs, text }
    this.#events.push(event)
    this.#onEvent(event)
  }

  /** Waits for something that must come. False: it did not, or nobody is left who could bring it about. */
  async #until(came: () => boolean, msMax: number, signal: AbortSignal): Promise<boolean> {
    const endsAt = performance.now() + msMax
    while (!came()) {
      const alive = this.#workers.some((worker) => worker.state !== 'ended' && worker.state !== 'killed')
      if (signal.aborted || !alive || performance.now() > endsAt) return false
      await pause(POLL_MS, signal)
    }
    return true
  }
}
