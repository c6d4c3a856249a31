/** The side of the child process: opens the recipe of a case and does what the schedule says, call by call. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { EventName, EventType, EventValue } from '../history/format.js'
import { microsAt, Recorder } from '../history/recorder.js'
import type { Acted } from './case.js'
import type { LabEvent, LabHold, LabLock, LabWorld, PointAction } from './lock.js'
import type { ActorSetup, Command, Reply } from './protocol.js'

/** Loaded at run time, so that another build of the library can be put under the same schedules. */
export async function loadLibrary(): Promise<typeof import('holdfast')> {
  const chosen: string = process.env['HOLDFAST_LAB_LIBRARY'] ?? 'holdfast'
  return (await import(chosen)) as typeof import('holdfast')
}

/** One caller: a lock of its own, and what it holds by name. */
export class LabActor {
  readonly #case: Acted
  readonly #lock: LabLock
  readonly #world: ActorWorld
  readonly #holds = new Map<string, LabHold>()
  readonly #watches = new Map<string, AbortController>()

  private constructor(labCase: Acted, lock: LabLock, world: ActorWorld) {
    this.#case = labCase
    this.#lock = lock
    this.#world = world
  }

  static async open(labCase: Acted, setup: ActorSetup, tell: (reply: Reply) => void): Promise<LabActor> {
    const world = new ActorWorld(setup, tell)
    return new LabActor(labCase, await labCase.open[setup.contender](world), world)
  }

  async obey(command: Command): Promise<unknown> {
    switch (command.do) {
      case 'acquire':
        return await this.#acquire(command.name, command.ttlMs, command.waitMs)
      case 'release':
        return await this.#release(command.name)
      case 'assert':
        return await this.#assert(command.name)
      case 'extend':
        return await this.#extend(command.name)
      case 'read':
        return await this.#read(command.name)
      case 'write':
      case 'add':
        return await this.#change(command.do, command.name, command.value, command.check)
      case 'act':
        return await this.#act(command.what, command.input)
      case 'arm':
        return this.#world.arm(command.point, command.action)
      case 'go':
        return this.#world.go(command.point)
      case 'clock':
        return this.#world.setClock(command.aheadMs)
      case 'close':
        return await this.#close()
    }
  }

  async #acquire(name: string, ttlMs: number, waitMs: number): Promise<{ fence: string | null } | null> {
    const { mark } = this.#world
    mark('acquire', 'invoke', name, { waitMs })
    let hold: LabHold | null
    try {
      hold = await this.#lock.acquire(name, { ttlMs, waitMs })
    } catch (error) {
      mark('acquire', 'info', name, { error: codeOf(error) })
      throw error
    }
    if (hold === null) {
      mark('acquire', 'fail', name, { error: 'ACQUIRE_TIMEOUT' })
      return null
    }
    mark('acquire', 'ok', name, valueOf(hold))
    this.#holds.set(name, hold)
    this.#watch(name, hold)
    await this.#world.point('right after acquiring')
    return { fence: hold.fence === undefined ? null : String(hold.fence) }
  }

  async #release(name: string): Promise<void> {
    const hold = this.#holds.get(name)
    if (hold === undefined) return
    this.#holds.delete(name)
    this.#watches.get(name)?.abort()
    const { mark } = this.#world
    // How far the lease has been renewed until now only the holder knows.
    mark('release', 'invoke', name, valueOf(hold))
    try {
      const outcome = await hold.release()
      if (outcome === 'released') mark('release', 'ok', name)
      else mark('release', 'fail', name, { error: 'NOT_HELD' })
    } catch (error) {
      mark('release', 'info', name, { error: codeOf(error) })
    }
  }

  /** Whether the recipe says that the lock is still held. */
  async #assert(name: string): Promise<boolean> {
    const hold = this.#holds.get(name)
    if (hold === undefined) return false
    return await this.#recorded('assert', name, hold, async () => await hold.assertHeld?.())
  }

  async #extend(name: string): Promise<boolean> {
    const hold = this.#holds.get(name)
    if (hold?.extend === undefined) return false
    return await this.#recorded('extend', name, hold, async () => await hold.extend?.())
  }

  async #read(name: string): Promise<readonly number[]> {
    const { mark } = this.#world
    mark('read', 'invoke', dataOf(name))
    const values = await this.#values(name)
    mark('read', 'ok', dataOf(name), { value: this.#isSet(name) ? values : (values[0] ?? null) })
    return values
  }

  /**
   * Writes one value, or adds it to those that it has read. It checks right before it writes, as a careful caller does,
   * and comes by a point at which its process can be stopped after that.
   */
  async #change(what: 'write' | 'add', name: string, value: number, check: boolean): Promise<string> {
    const hold = this.#holds.get(name) ?? null
    const before = what === 'add' ? await this.#values(name) : []
    if (check && !(await this.#assert(name))) return 'NOT_HELD'
    const { mark } = this.#world
    const fence = hold?.fence === undefined ? {} : { fence: String(hold.fence) }
    await this.#world.point('between check and write')
    mark(what, 'invoke', dataOf(name), { value, ...fence })
    try {
      if (this.#lock.write === undefined) throw new Error('The recipe of this case has nothing to write to.')
      await this.#lock.write(name, [...before, value], hold)
      mark(what, 'ok', dataOf(name), { value, ...fence })
      return 'accepted'
    } catch (error) {
      mark(what, 'fail', dataOf(name), { error: codeOf(error) })
      return codeOf(error)
    }
  }

  async #values(name: string): Promise<readonly number[]> {
    if (this.#lock.read === undefined) throw new Error('The recipe of this case has nothing to read.')
    return await this.#lock.read(name, this.#holds.get(name) ?? null)
  }

  #isSet(name: string): boolean {
    return this.#case.resources?.[dataOf(name)]?.kind === 'set'
  }

  async #act(what: string, input: unknown): Promise<unknown> {
    if (this.#lock.act === undefined) throw new Error(`The recipe of this case cannot do '${what}'.`)
    return await this.#lock.act(what, input)
  }

  async #close(): Promise<void> {
    for (const watch of this.#watches.values()) watch.abort()
    await this.#lock.close()
  }

  async #recorded(
    what: 'assert' | 'extend',
    name: string,
    hold: LabHold,
    call: () => Promise<void>,
  ): Promise<boolean> {
    const { mark } = this.#world
    mark(what, 'invoke', name)
    try {
      await call()
    } catch (error) {
      mark(what, 'fail', name, { error: codeOf(error) })
      this.#lost(name, codeOf(error))
      return false
    }
    mark(what, 'ok', name, valueOf(hold))
    return true
  }

  #watch(name: string, hold: LabHold): void {
    const over = new AbortController()
    this.#watches.set(name, over)
    hold.signal?.addEventListener('abort', () => this.#lost(name, codeOf(hold.signal?.reason)), {
      once: true,
      signal: over.signal,
    })
  }

  #lost(name: string, error: string): void {
    const watch = this.#watches.get(name)
    if (watch === undefined || watch.signal.aborted) return
    watch.abort()
    const hold = this.#holds.get(name)
    this.#world.mark('lost', 'note', name, { ...(hold === undefined ? {} : valueOf(hold)), error })
  }
}

const wallClock = Date.now.bind(Date)

/** What the recipes see of this process. */
class ActorWorld implements LabWorld {
  readonly actor: string
  readonly url: string
  readonly settings: Readonly<Record<string, unknown>>
  readonly #caller: string
  readonly #process: string
  /** Each line leaves this process by one write, so that a kill loses nothing of what was seen before it. */
  readonly #recorder: Recorder
  readonly #tell: (reply: Reply) => void
  readonly #armed = new Map<string, PointAction>()
  readonly #waiting = new Map<string, () => void>()
  readonly library = loadLibrary

  constructor(setup: ActorSetup, tell: (reply: Reply) => void) {
    this.actor = setup.actor
    this.url = setup.url
    this.settings = setup.settings
    this.#caller = setup.process === setup.actor ? setup.actor : `${setup.process}.${setup.actor}`
    this.#process = setup.process
    this.#recorder = new Recorder(setup.historyFile)
    this.#tell = tell
  }

  readonly mark = (f: EventName, type: EventType, k: string, v?: EventValue): void => {
    this.#recorder.event(f, type, this.#caller, k, v)
  }

  record({ f, type, k, v }: LabEvent): void {
    this.mark(f, type, k, v)
  }

  /** The wall clock of the whole process is set, so that it goes wrong for whoever looks at it, ours too. */
  setClock(aheadMs: number): void {
    Date.now = () => wallClock() + aheadMs
  }

  arm(point: string, action: PointAction): void {
    this.#armed.set(point, action)
  }

  go(point: string): void {
    this.#waiting.get(point)?.()
    this.#waiting.delete(point)
  }

  async point(name: string): Promise<void> {
    const action = this.#armed.get(name)
    if (action === undefined) return
    this.#armed.delete(name)
    if (action !== 'wait') this.#faultBegins(action === 'kill' ? 'kill' : 'pause', name)
    if (action === 'kill') {
      process.kill(process.pid, 'SIGKILL')
      await new Promise(() => {})
    }
    this.#tell({ kind: 'at', actor: this.actor, point: name })
    if (action === 'stop') {
      // The message has to be on its way before the process stands still. The schedule notes the end of it.
      await sleep(5)
      process.kill(process.pid, 'SIGSTOP')
      return
    }
    await new Promise<void>((resolve) => this.#waiting.set(name, resolve))
  }

  #faultBegins(fault: string, point: string): void {
    this.mark('fault-begin', 'note', '', { fault, target: this.#process, error: point })
  }
}

function valueOf(hold: LabHold): EventValue {
  return {
    ...(hold.fence === undefined ? {} : { fence: String(hold.fence) }),
    ...(hold.deadline === undefined ? {} : { until: microsAt(hold.deadline()) }),
  }
}

/** What a lock protects is a resource of its own in the history. */
export function dataOf(name: string): string {
  return `${name}/data`
}

function codeOf(error: unknown): string {
  const code: unknown = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
  if (typeof code === 'string') return code
  return error instanceof Error ? error.message : String(error)
}
