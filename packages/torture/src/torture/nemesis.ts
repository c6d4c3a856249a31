/** Carries out a schedule of faults, and writes down what it did to whom. */

import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SeededRandom } from 'holdfast/testing'
import { type HeaderFields, Recorder } from '../history/recorder.js'
import type { FaultName, Ongoing, StageFault } from '../stage/stage.js'
import type { Crew, WorkerProcess } from './crew.js'
import type { PlannedFault, Schedule } from './schedule.js'

export interface InjectedFault {
  readonly name: FaultName
  readonly target: string
}

interface Active extends InjectedFault {
  readonly end: () => Promise<void>
}

export class Nemesis {
  readonly #crew: Crew
  readonly #faults: readonly StageFault[]
  readonly #recorder: Recorder
  readonly #active = new Set<Active>()
  readonly injected: InjectedFault[] = []
  /** Faults that did not begin or end, in words. */
  readonly trouble: string[] = []

  constructor(crew: Crew, faults: readonly StageFault[], histories: string, header: HeaderFields) {
    this.#crew = crew
    this.#faults = faults
    this.#recorder = new Recorder(join(histories, 'nemesis.jsonl'))
    this.#recorder.header({ writer: 'nemesis', ...header })
  }

  /** What is being done right now. */
  get active(): readonly InjectedFault[] {
    return [...this.#active]
  }

  /** Settles when the last fault has ended, or soon after the signal aborts. */
  async carryOut({ faults }: Schedule, startedAtMs: number, signal: AbortSignal): Promise<void> {
    const lanes = [true, false].map((ofStage) =>
      faults.filter(({ stageFault }) => (stageFault !== null) === ofStage),
    )
    await Promise.all(
      lanes.map(async (lane) => {
        // One after the other: a server that takes long to come back puts off what was to be done to it next.
        for (const fault of lane) {
          await pause(startedAtMs + fault.atMs - performance.now(), signal)
          if (signal.aborted) return
          await this.#carryOutOne(fault, signal)
        }
      }),
    )
  }

  async #carryOutOne(fault: PlannedFault, signal: AbortSignal): Promise<void> {
    try {
      const active = await this.#begin(fault)
      if (active === null) return
      this.#active.add(active)
      this.injected.push({ name: active.name, target: active.target })
      await pause(fault.lastsMs, signal)
      try {
        await active.end()
      } finally {
        this.#active.delete(active)
        this.#note('fault-end', active)
      }
    } catch (error) {
      this.trouble.push(`${fault.name}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }

  async #begin(fault: PlannedFault): Promise<Active | null> {
    if (fault.stageFault !== null) return await this.#beginAtStage(fault, fault.stageFault)
    const place = fault.worker ?? 1
    const worker = this.#crew.at(place)
    if (worker === undefined || !worker.isRunning) return null
    const target = worker.name
    // Noted before it begins, so that whatever comes of it comes after.
    this.#note('fault-begin', { name: fault.name, target })
    const end = await this.#beginAtWorker(fault, worker, place)
    return { name: fault.name, target, end }
  }

  async #beginAtWorker(
    fault: PlannedFault,
    worker: WorkerProcess,
    place: number,
  ): Promise<() => Promise<void>> {
    if (fault.name === 'kill') {
      await worker.kill()
      // Noted when it is certain: until then it may have gone on, and have written down what it did.
      this.noteDeath(worker.name)
      return () => {
        this.#crew.start(place)
        return Promise.resolve()
      }
    }
    if (fault.name === 'stall') {
      worker.send({ kind: 'stall', ms: fault.lastsMs })
      return () => Promise.resolve()
    }
    worker.signal('SIGSTOP')
    return () => {
      worker.signal('SIGCONT')
      return Promise.resolve()
    }
  }

  async #beginAtStage(fault: PlannedFault, index: number): Promise<Active | null> {
    const stageFault = this.#faults[index]
    if (stageFault === undefined) return null
    const random = new SeededRandom(fault.seed)
    // What it will be done to is known only when it has begun, so until then it is a fault on the stage.
    const early: InjectedFault = { name: fault.name, target: 'stage' }
    this.#note('fault-begin', early)
    let ongoing: Ongoing
    try {
      ongoing = await stageFault.begin(() => random.fraction())
    } catch (error) {
      this.#note('fault-end', early)
      throw error
    }
    const active = { name: fault.name, target: ongoing.target, end: () => ongoing.end() }
    this.#note('fault-begin', active)
    this.#note('fault-end', early)
    return active
  }

  #note(f: 'fault-begin' | 'fault-end', { name, target }: InjectedFault): void {
    this.#recorder.event(f, 'note', 'nemesis', '', { fault: name, target })
  }

  /** A worker is dead, whoever killed it. */
  noteDeath(process: string): void {
    this.#recorder.event('death', 'note', process, '')
  }

  close(): void {
    this.#recorder.close()
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  // An aborted pause ends early, and whoever waited looks at the signal.
  await sleep(Math.max(0, ms), undefined, { signal }).catch(() => undefined)
}
