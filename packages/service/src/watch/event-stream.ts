import { Readable } from 'node:stream'
import type { Deadlock, ResourceView } from 'holdfast'
import type { Activity, Change, Statistics, WatchListener } from './activity.js'
import { keyOf } from './seen-twice.js'
import { shownDeadlocks } from './shown.js'
import { Sight } from './sight.js'
import type { Watcher } from './watcher.js'
import { wireActivity, wireDeadlock, wireResource } from './wire.js'

export interface EventStreamOptions {
  readonly watcher: Watcher
  readonly hello: object
  readonly prefix: string
  /** Whether the listener may see this name; the empty one: all names. */
  readonly maySee: (name: string) => boolean
  /** False once its right was taken away. */
  readonly isWelcome: () => boolean
}

const PART_MAX = 500
/** A message is sent when it has this many bytes; the rest comes with the next one. */
const PART_BYTES_MAX = 128 * 1_024
const ACTIVITIES_MAX = 500
const HEARTBEAT_MS = 15_000
/** A listener that has read nothing for this long is gone, or as good as that. */
const SILENCE_MAX_MS = 30_000
const BUFFER_BYTES = 64 * 1_024

/** Views are the same for everybody, so each becomes text once. */
const texts = new WeakMap<ResourceView, { readonly text: string; readonly bytes: number }>()

function textOf(view: ResourceView): { readonly text: string; readonly bytes: number } {
  let made = texts.get(view)
  if (made === undefined) {
    const text = JSON.stringify(wireResource(view))
    made = { text, bytes: Buffer.byteLength(text) }
    texts.set(view, made)
  }
  return made
}

/**
 * What one listener is sent. One that reads slowly is not sent all that happened meanwhile: only which names differ is kept
 * for it, and what they look like when it can read again. So its queue is bounded by what there is to see.
 */
export class EventStream extends Readable implements WatchListener {
  readonly #options: EventStreamOptions
  readonly #unsubscribe: () => void
  readonly #unsent = new Set<string>()
  /** null: the listener may see all names, and so what is counted over them. */
  readonly #sight: Sight | null
  #parts: readonly string[] | null = null
  #activities: Activity[] = []
  #statistics: Statistics | null = null
  #hasDeadlocks = true
  /** Those that it was sent last; null before the first. */
  #deadlocksText: string | null = null
  #wantsMore = false
  #isStarted = false
  #isFinished = false
  #wantedAt: number
  #cancelHeartbeat: () => void

  constructor(options: EventStreamOptions) {
    super({ highWaterMark: BUFFER_BYTES })
    const { watcher } = options
    this.#options = options
    this.#sight = options.maySee('') ? null : new Sight()
    this.#wantedAt = watcher.clock.monotonicMs()
    this.#unsubscribe = watcher.subscribe(this)
    this.#cancelHeartbeat = watcher.clock.after(HEARTBEAT_MS, () => this.#beat())
    const now = new Date(watcher.clock.wallMs()).toISOString()
    this.#send('hello', JSON.stringify({ ...options.hello, now }))
  }

  /** Begins with what there is. Changes that were told before are in it. */
  start(): void {
    const { watcher } = this.#options
    this.#isStarted = true
    if (watcher.canList) {
      this.#parts = watcher.names().filter((name) => this.#sees(name))
      for (const name of this.#parts) this.#sight?.saw(name, watcher.view(name))
    }
    this.#pump()
  }

  onChange({ changed, removed }: Change): void {
    for (const view of changed) this.#saw(view.resource, view)
    for (const name of removed) this.#saw(name, null)
    this.#pump()
  }

  onActivity(activities: readonly Activity[]): void {
    for (const activity of activities) {
      if (!this.#sees(activity.name)) continue
      this.#activities.push(activity)
      this.#sight?.heard(activity)
    }
    const tooMany = this.#activities.length - ACTIVITIES_MAX
    if (tooMany > 0) this.#activities.splice(0, tooMany)
    this.#pump()
  }

  onDeadlocks(): void {
    this.#hasDeadlocks = true
    this.#pump()
  }

  onStatistics(statistics: Statistics): void {
    this.#statistics = this.#sight?.narrowed(statistics) ?? statistics
    this.#pump()
  }

  override _read(): void {
    this.#wantsMore = true
    this.#wantedAt = this.#options.watcher.clock.monotonicMs()
    this.#pump()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#cancelHeartbeat()
    this.#unsubscribe()
    done(error)
  }

  /** Ends it, as a stop of the service does. */
  finish(): void {
    if (this.destroyed || this.#isFinished) return
    this.#isFinished = true
    this.push(null)
    this.#unsubscribe()
    this.#cancelHeartbeat()
    // A listener that does not read what is left would keep its place for ever.
    this.#cancelHeartbeat = this.#options.watcher.clock.after(SILENCE_MAX_MS, () => this.destroy())
  }

  #sees(name: string): boolean {
    return name.startsWith(this.#options.prefix) && this.#options.maySee(name)
  }

  #saw(name: string, view: ResourceView | null): void {
    if (!this.#sees(name)) return
    this.#unsent.add(name)
    this.#sight?.saw(name, view)
  }

  /** Sends what there is to send for as long as the listener takes it. Statistics come every second, so it ends soon. */
  #pump(): void {
    if (!this.#options.isWelcome()) this.finish()
    try {
      while (this.#wantsMore && this.#isStarted && !this.destroyed && !this.#isFinished) {
        const text = this.#next()
        if (text === null) return
        this.#wantsMore = this.push(text)
      }
    } catch (error) {
      // What cannot be sent to one listener must end neither the service nor the streams of the others.
      this.#options.watcher.report(error)
      this.destroy()
    }
  }

  /** The snapshot comes first: a change of what was not shown yet would only be shown twice. */
  #next(): string | null {
    if (this.#parts !== null) return this.#nextPart(this.#parts)
    if (this.#unsent.size > 0) return this.#nextChange()
    const [activity] = this.#activities.splice(0, 1)
    if (activity !== undefined) return eventText('activity', JSON.stringify(wireActivity(activity)))
    if (this.#hasDeadlocks) return this.#deadlocks()
    const statistics = this.#statistics
    this.#statistics = null
    return statistics === null ? null : eventText('stats', JSON.stringify(statistics))
  }

  #nextPart(names: readonly string[]): string {
    const views: string[] = []
    let taken = 0
    let size = 0
    for (const name of names) {
      if (taken >= PART_MAX || size >= PART_BYTES_MAX) break
      taken += 1
      this.#unsent.delete(name)
      const view = this.#options.watcher.view(name)
      if (view === null) continue
      const { text, bytes } = textOf(view)
      size += bytes
      views.push(text)
    }
    const more = names.length > taken
    this.#parts = more ? names.slice(taken) : null
    return eventText('snapshot', `{"locks":[${views.join()}],"more":${more}}`)
  }

  #nextChange(): string {
    const changed: string[] = []
    const removed: string[] = []
    let size = 0
    for (const name of this.#unsent) {
      if (changed.length + removed.length >= PART_MAX || size >= PART_BYTES_MAX) break
      this.#unsent.delete(name)
      const view = this.#options.watcher.view(name)
      if (view === null) {
        removed.push(name)
        continue
      }
      const { text, bytes } = textOf(view)
      size += bytes
      changed.push(text)
    }
    return eventText('change', `{"changed":[${changed.join()}],"removed":${JSON.stringify(removed)}}`)
  }

  #deadlocks(): string | null {
    this.#hasDeadlocks = false
    if (!this.#options.watcher.canList) return this.#next()
    const deadlocks = visibleDeadlocks(this.#options.watcher.deadlocks(), (name) => this.#sees(name))
    const text = JSON.stringify(deadlocks.map(keyOf))
    // That others have changed is nothing that it may learn.
    if (text === this.#deadlocksText) return this.#next()
    this.#deadlocksText = text
    const shown = shownDeadlocks(deadlocks).map(wireDeadlock)
    return eventText('deadlocks', JSON.stringify({ deadlocks: shown, total: deadlocks.length }))
  }

  #send(event: string, data: string): void {
    this.push(eventText(event, data))
  }

  #beat(): void {
    const { clock } = this.#options.watcher
    if (this.destroyed || this.#isFinished) return
    if (!this.#wantsMore && clock.monotonicMs() - this.#wantedAt > SILENCE_MAX_MS) {
      this.destroy()
      return
    }
    this.#cancelHeartbeat = clock.after(HEARTBEAT_MS, () => this.#beat())
    if (this.#wantsMore) this.#wantsMore = this.push(':\n\n')
  }
}

/** Those of which every name may be seen: a part of a cycle would tell of the rest. */
export function visibleDeadlocks(
  deadlocks: readonly Deadlock[],
  maySee: (name: string) => boolean,
): readonly Deadlock[] {
  return deadlocks.filter(({ cycle }) => cycle.every(({ waitsFor }) => maySee(waitsFor)))
}

/** JSON has no line breaks of its own, so the data is one line. */
function eventText(event: string, data: string): string {
  return `event: ${event}\ndata: ${data}\n\n`
}
