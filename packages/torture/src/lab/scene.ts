/** What a schedule plays on: real servers, relays before them, actors in processes of their own, and the history. */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Controls, startProxy, storeFor, type TcpProxy } from 'holdfast-servers'
import type { HeaderLine, HistoryEvent, HistoryLine } from '../history/format.js'
import { nowMicros } from '../history/recorder.js'
import { Actor, ActorGone, ActorProcess } from './actor-process.js'
import type { Contender, Playable } from './case.js'

/** The store that a case needs cannot be had on this machine. */
export class StoreNotHere extends Error {
  constructor(reason: string) {
    super(reason)
    this.name = 'StoreNotHere'
  }
}

/** Something that the schedule says happened, for the timeline. */
export interface Remark {
  readonly t: number
  readonly text: string
}

export interface ActorOptions {
  /** Which process it lives in. Its own, unless given; only callers with processes of their own can be killed alone. */
  readonly process?: string
  /** The relay that its connections go through. */
  readonly relay?: TcpProxy
  /** What it connects to, if it is not the URL of the scene. */
  readonly url?: string
  readonly settings?: Readonly<Record<string, unknown>>
}

export interface Disposable {
  dispose(): Promise<void>
}

export class Scene {
  readonly contender: Contender
  readonly signal: AbortSignal
  /** The name that the actors lock unless they are told another one. */
  readonly lockName = 'account'
  /** The lease that they ask for unless they are told another one. Short, so that faults outlast it. */
  ttlMs = 600
  /** The build of the library that the actors use; the one that everybody uses, unless it is set before they are made. */
  library: string | undefined
  readonly facts = new Map<string, number>()
  readonly remarks: Remark[] = []
  readonly #case: Playable
  readonly #folder: string
  readonly #processes = new Map<string, ActorProcess>()
  readonly #owned: Disposable[] = []
  readonly #files: string[] = []
  readonly #notes: HistoryEvent[] = []
  #url: string | null = null
  #disposed = false

  constructor(labCase: Playable, contender: Contender, folder: string, signal: AbortSignal) {
    this.#case = labCase
    this.contender = contender
    this.#folder = folder
    this.signal = signal
  }

  /** What actors connect to. */
  get url(): string {
    if (this.#url === null) throw new Error('The servers of the scene have not been started.')
    return this.#url
  }

  set url(url: string) {
    this.#url = url
  }

  get isOurs(): boolean {
    return this.contender === 'ours'
  }

  /** Starts a store of holdfast-servers with its defaults; it is put away with the scene. Sets `url` if none is set. */
  async start<Name extends keyof Controls>(name: Name): Promise<Controls[Name]> {
    const outcome = await storeFor(name)
    if (outcome.kind === 'not run') throw new StoreNotHere(outcome.reason)
    const { store } = outcome
    this.own(store)
    this.#url ??= store.url
    return store.control
  }

  /** The same for stores without servers. */
  async startPlain(name: string): Promise<void> {
    const outcome = await storeFor(name)
    if (outcome.kind === 'not run') throw new StoreNotHere(outcome.reason)
    this.own(outcome.store)
    this.#url ??= outcome.store.url
  }

  /** Whatever the schedule has started itself, to be put away with the scene, last first. */
  own<T extends Disposable>(thing: T): T {
    this.#owned.push(thing)
    // A schedule that was cut short may be about to start something; nobody would put it away any more.
    if (this.#disposed) void this.dispose().catch(() => {})
    return thing
  }

  async relay(port: number): Promise<TcpProxy> {
    return this.own(await startProxy(port))
  }

  /** A caller; by default in a process of its own, which has the same name. */
  async actor(name: string, options: ActorOptions = {}): Promise<Actor> {
    if (this.#disposed) throw new Error('The scene is over.')
    const processName = options.process ?? name
    const process = this.#processes.get(processName) ?? new ActorProcess(processName, this.library)
    this.#processes.set(processName, process)
    const historyFile = join(this.#folder, `${this.contender}-${processName}-${name}.jsonl`)
    this.#files.push(historyFile)
    const url = options.url ?? this.url
    await process.open({
      caseName: this.#case.name,
      contender: this.contender,
      process: processName,
      actor: name,
      url: options.relay === undefined ? url : throughRelay(url, options.relay),
      settings: options.settings ?? {},
      historyFile,
    })
    return new Actor(process, name, this.lockName, this.ttlMs)
  }

  /** Several callers with processes of their own, which start at the same time. */
  async actors<const Names extends readonly string[]>(
    ...names: Names
  ): Promise<{ readonly [Index in keyof Names]: Actor }> {
    const started = await Promise.all(names.map((name) => this.actor(name)))
    return started as unknown as { readonly [Index in keyof Names]: Actor }
  }

  /** Several callers in one process, each with a client of its own. */
  async crowd(process: string, count: number, options: ActorOptions = {}): Promise<readonly Actor[]> {
    const actors: Actor[] = []
    for (let index = 1; index <= count; index += 1) {
      actors.push(await this.actor(String(index), { ...options, process }))
    }
    return actors
  }

  /** Stands in the timeline, and nowhere else. */
  say(text: string): void {
    this.remarks.push({ t: nowMicros(), text })
  }

  /** Kills the process of an actor with SIGKILL. */
  async kill(actor: Actor): Promise<void> {
    this.faultBegins('kill', actor.process.name)
    await actor.process.kill()
    this.#noteDeath(actor)
  }

  /** An actor has died by itself, such as at a point that was armed with `kill`. */
  async died(actor: Actor): Promise<void> {
    await orAborted(actor.process.ended(), this.signal)
    this.#noteDeath(actor)
  }

  /** Stops the process of an actor with SIGSTOP. */
  pause(actor: Actor): void {
    this.faultBegins('pause', actor.process.name)
    actor.process.signal('SIGSTOP')
  }

  /** Lets it go on, whether `pause` has stopped it or a point that was armed with `stop`. */
  async resume(actor: Actor): Promise<void> {
    // A SIGCONT that overtakes the SIGSTOP would be lost, and the process would stand still for ever.
    await this.until(() => actor.process.isStopped())
    actor.process.signal('SIGCONT')
    this.faultEnds('pause', actor.process.name)
  }

  /** Notes in the history that something was done to whom. */
  faultBegins(fault: string, target: string): void {
    this.note({ f: 'fault-begin', k: '', p: 'schedule', v: { fault, target } })
  }

  faultEnds(fault: string, target: string): void {
    this.note({ f: 'fault-end', k: '', p: 'schedule', v: { fault, target } })
  }

  note(event: Omit<HistoryEvent, 't' | 'type'>): void {
    this.#notes.push({ t: nowMicros(), type: 'note', ...event })
  }

  /** What was counted, for the judge of the case. */
  count(what: string, value: number): void {
    this.facts.set(what, value)
    this.say(`${what}: ${value}`)
  }

  async sleep(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.signal })
  }

  /** Asks again and again until it is so. It never gives up by itself: the runner has a limit for the whole schedule. */
  async until(came: () => boolean | Promise<boolean>, everyMs = 20): Promise<void> {
    while (!(await came())) await this.sleep(everyMs)
  }

  /** The call of an actor that is expected to die in it. */
  async dies(call: Promise<unknown>): Promise<void> {
    try {
      await call
    } catch (error) {
      if (!(error instanceof ActorGone)) throw error
    }
  }

  /** The call of an actor that may well be refused with an error; what came of it stands in the history. */
  async tries<T>(call: Promise<T>): Promise<T | null> {
    try {
      return await call
    } catch (error) {
      if (error instanceof ActorGone) throw error
      return null
    }
  }

  /** All that was seen, in the order of time, under a header that says what it is about. */
  async history(): Promise<readonly HistoryLine[]> {
    const texts = await Promise.all(this.#files.map((file) => readFile(file, 'utf8').catch(() => '')))
    const events = texts.flatMap((text) => text.split('\n').flatMap((line) => parseEvent(line)))
    const header: HeaderLine = {
      format: 'holdfast-history/1',
      store: this.#case.stores[0],
      recipe: `${this.#case.name} (${this.contender})`,
      ...(this.#case.resources === undefined ? {} : { resources: this.#case.resources }),
      ...(this.#case.promises === undefined ? {} : { promises: this.#case.promises }),
    }
    return [header, ...[...events, ...this.#notes].sort((a, b) => a.t - b.t)]
  }

  /** Ends every process and every server. It may be called twice, and whatever the schedule has left half done. */
  async dispose(): Promise<void> {
    this.#disposed = true
    await Promise.all([...this.#processes.values()].map((process) => process.kill()))
    // One that cannot be put away must not keep the others from it.
    const failures: unknown[] = []
    for (const thing of this.#owned.splice(0).reverse()) {
      await thing.dispose().catch((error: unknown) => failures.push(error))
    }
    if (failures.length > 0) throw failures[0]
  }

  #noteDeath(actor: Actor): void {
    this.note({ f: 'death', k: '', p: actor.process.name })
    this.faultEnds('kill', actor.process.name)
  }
}

/** Rejects as soon as the signal aborts, whatever becomes of the promise. */
export async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  let onAbort: (() => void) | undefined
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason as Error)
    signal.addEventListener('abort', onAbort, { once: true })
  })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    if (onAbort !== undefined) signal.removeEventListener('abort', onAbort)
  }
}

/** The last line of a process that was killed may be cut off. */
function parseEvent(line: string): HistoryEvent[] {
  if (!line.endsWith('}')) return []
  return [JSON.parse(line) as HistoryEvent]
}

/** The same URL with the port of the relay; it must name one server. */
function throughRelay(url: string, relay: TcpProxy): string {
  const parsed = new URL(url)
  parsed.port = String(relay.port)
  return parsed.href
}
