import { setMaxListeners } from 'node:events'
import { mkdir, mkdtemp, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SeededRandom } from 'holdfast/testing'
import { nowMicros } from '../history/recorder.js'
import type { Stage } from '../stage/stage.js'
import { Crew } from './crew.js'
import { growthOf } from './growth.js'
import { Guard } from './guard.js'
import { judgeInThread } from './judge-thread.js'
import { REGISTER_LOG, recordFinalReads } from './judgement.js'
import { type NamePlan, namesFor, resourcesOf } from './names.js'
import { Nemesis } from './nemesis.js'
import type { Phase, Progress, TortureOptions, TortureOutcome } from './outcome.js'
import { promisesOf } from './promises.js'
import type { WorkerCounts, WorkerSetup } from './protocol.js'
import { planSchedule, type Schedule, WORKER_FAULTS } from './schedule.js'
import { awaitFinish, awaitNothingLeft, awaitReady } from './winding-down.js'

const CALLERS = 4
/** The place of the worker whose client marks flows. */
const FLOW_PLACE = 2
const PROGRESS_MS = 250
/** Nothing that works takes this much longer than planned; past it, the run is given up. */
const WATCHDOG_MS = 180_000

/** Settles with the outcome, whatever it is. Rejects if there is none: the store does not start, or the signal aborts. */
export async function runTorture(
  options: TortureOptions,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void = () => {},
): Promise<TortureOutcome> {
  signal.throwIfAborted()
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-torture-'))
  const guard = new Guard(folder)
  const watchdog = AbortSignal.timeout(options.seconds * 2_000 + WATCHDOG_MS)
  try {
    const run = new TortureRun(options, folder, guard, onProgress)
    const over = AbortSignal.any([signal, watchdog])
    // Every fault that is yet to come waits with an ear on it.
    setMaxListeners(0, over)
    return await run.perform(over)
  } finally {
    await guard.end()
  }
}

/** Where things are and what they are called. */
interface Place {
  readonly names: readonly NamePlan[]
  readonly histories: string
  readonly scene: string
  readonly socket: string | null
  readonly workers: number
  readonly callers: number
}

class TortureRun {
  readonly #options: TortureOptions
  readonly #folder: string
  readonly #guard: Guard
  readonly #onProgress: (progress: Progress) => void
  readonly #since = performance.now()
  #phase: Phase = 'starting'
  #totalMs = 0
  #crew: Crew | null = null
  #nemesis: Nemesis | null = null

  constructor(
    options: TortureOptions,
    folder: string,
    guard: Guard,
    onProgress: (progress: Progress) => void,
  ) {
    this.#options = options
    this.#folder = folder
    this.#guard = guard
    this.#onProgress = onProgress
  }

  async perform(signal: AbortSignal): Promise<TortureOutcome> {
    const reporting = setInterval(() => this.#onProgress(this.#progress()), PROGRESS_MS)
    let stage: Stage | null = null
    try {
      stage = await this.#options.stage.start()
      signal.throwIfAborted()
      return await this.#onStage(stage, signal)
    } finally {
      clearInterval(reporting)
      // Workers first: one that is left would make anew what the stage puts away.
      await this.#crew?.end()
      await stage?.dispose()
    }
  }

  async #onStage(stage: Stage, signal: AbortSignal): Promise<TortureOutcome> {
    const { seed, seconds, history, repeat } = this.#options
    const histories = history === null ? join(this.#folder, 'history') : resolve(history)
    const scene = join(this.#folder, 'scene')
    await Promise.all([mkdir(histories, { recursive: true }), mkdir(scene)])
    const files = await readdir(histories)
    if (files.length > 0) throw new Error(`The folder for the history is not empty: ${histories}`)
    const names = namesFor(stage.guarantees).filter(({ name }) => this.#options.names?.includes(name) ?? true)
    const faults = stage.faults.filter(({ name }) => this.#options.faults?.includes(name) ?? true)
    const socket = this.#socketFor(stage)
    const isLocal = stage.url.startsWith('memory:')
    // What lives in the memory of one process can only be contended for by the callers of that process.
    const [workers, callers] = isLocal
      ? [1, CALLERS * this.#options.workers]
      : [this.#options.workers, CALLERS]
    const crew = await this.#gather(stage, { names, histories, scene, socket, workers, callers })
    const nemesis = new Nemesis(crew, faults, histories, {
      store: stage.store,
      recipe: stage.recipe,
      resources: resourcesOf(names),
      promises: promisesOf(stage, faults),
    })
    this.#nemesis = nemesis
    await awaitReady(crew, signal)
    // With the process all of the store would die, and nothing would be left to take over.
    const workerFaults = WORKER_FAULTS.filter(
      (name) => (this.#options.faults?.includes(name) ?? true) && !(isLocal && name === 'kill'),
    )
    const schedule = planSchedule({
      seed,
      seconds,
      ttlMs: stage.ttlMs,
      workers,
      workerFaults,
      stageFaults: faults,
    })
    await this.#torment(nemesis, schedule, signal)
    this.#phase = 'finishing'
    const findings = await awaitFinish(crew, stage, signal)
    await recordFinalReads(histories, socket)
    await crew.end()
    const health = crew.everybody.flatMap((worker) =>
      worker.health === null ? [] : [{ process: worker.name, health: worker.health }],
    )
    findings.push(...health.flatMap((each) => growthOf(each.process, each.health, seconds)))
    this.#phase = 'leftovers'
    findings.push(...(await awaitNothingLeft(stage, signal)))
    nemesis.close()
    this.#phase = 'checking'
    this.#onProgress(this.#progress())
    const { injected, trouble } = nemesis
    const { store, recipe, guarantees, ttlMs, freedWithinMs } = stage
    const record = {
      stage: { store, recipe, guarantees, ttlMs, freedWithinMs },
      names,
      histories,
      scene,
      findings,
      seed,
      seconds,
      workers,
      repeat,
      injected,
      trouble,
      health,
    }
    const { report, failures } = this.#options
    const tookMs = performance.now() - this.#since
    return await judgeInThread({ record, tookMs, kept: { history, report, failures } })
  }

  /** Where fences are minted there is a register to check them. */
  #socketFor({ guarantees }: Stage): string | null {
    return guarantees.fencing === 'none' ? null : join(this.#folder, 'register.sock')
  }

  /** Everybody who takes part, started. */
  async #gather(stage: Stage, { names, histories, scene, socket, workers, callers }: Place): Promise<Crew> {
    const { seed, broken = null } = this.#options
    const startedAt = nowMicros()
    const setupOf = (place: number, generation: number): WorkerSetup => ({
      process: generation === 1 ? `w${place}` : `w${place}-${generation}`,
      url: stage.url,
      ttlMs: stage.ttlMs,
      callers,
      seed: new SeededRandom(seed + place * 1_009 + generation * 9_176).whole(0, 0xffff_ffff),
      histories,
      scene,
      prefix: this.#options.prefix,
      names,
      register: socket,
      startedAt,
      broken,
      // In one process, so that the others pass locks on among their callers, which separate flows do not.
      flows: place === FLOW_PLACE,
    })
    const crew = new Crew(this.#guard, setupOf, stage.env ?? {})
    this.#crew = crew
    if (socket !== null) await crew.startRegister({ socket, log: join(histories, REGISTER_LOG) })
    for (let place = 1; place <= workers; place += 1) crew.start(place)
    return crew
  }

  async #torment(nemesis: Nemesis, schedule: Schedule, signal: AbortSignal): Promise<void> {
    const startedAt = performance.now()
    this.#totalMs = startedAt - this.#since + schedule.endsAtMs
    this.#phase = 'faults'
    await nemesis.carryOut(schedule, startedAt, signal)
    signal.throwIfAborted()
    this.#phase = 'healing'
    await sleep(Math.max(0, startedAt + schedule.endsAtMs - performance.now()), undefined, { signal })
  }

  #progress(): Progress {
    const everybody = this.#crew?.everybody ?? []
    const sum = (of: (counts: WorkerCounts) => number): number =>
      everybody.reduce((total, { counts }) => total + of(counts), 0)
    const present = (this.#crew?.present ?? []).filter(({ isRunning, isDone }) => isRunning && !isDone)
    return {
      phase: this.#phase,
      elapsedMs: performance.now() - this.#since,
      totalMs: this.#totalMs,
      workers: present.length,
      acquired: sum(({ acquired }) => acquired),
      lost: sum(({ lost }) => lost),
      refused: sum(({ refused }) => refused),
      unknown: sum(({ unknown }) => unknown),
      waiting: present.reduce((total, { counts }) => total + counts.waiting, 0),
      active: (this.#nemesis?.active ?? []).map(({ name, target }) => `${name} ${target}`),
      injected: this.#nemesis?.injected.length ?? 0,
    }
  }
}
