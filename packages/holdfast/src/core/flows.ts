import { AsyncLocalStorage } from 'node:async_hooks'
import { LockOrderError } from './errors.js'
import { isFlowPath, pathInside, randomPart, writeFlowMark } from './flow-text.js'
import { type Hold, StoreHold } from './hold.js'
import {
  describeInversion,
  type LockInversion,
  type LockOrder,
  type LockOrderOptions,
  stacksOf,
} from './lock-order.js'
import type { Runtime } from './runtime.js'
import type { Standing } from './standing.js'

/**
 * A path, and one object for all that have it: two pieces of work that run side by side inside it must get different paths,
 * whichever way they came there.
 */
interface Place {
  /** null: so deep inside others that it cannot be told any more. */
  readonly path: string | null
  /** How many paths inside it were given out. */
  inside: number
}

/** Where the present piece of work stands. */
interface Frame {
  readonly place: Place
  /** Whatever is taken here is of this very path, because one thing is done after the other. */
  readonly isOne: boolean
  /** Whether what is taken here without `run()` is remembered; not while several are taken as one. */
  readonly collects: boolean
  /** What this piece of work has taken, by any client; those that are over are dropped now and then. */
  holds: readonly Taken[]
  readonly outer: Frame | undefined
}

interface Taken {
  readonly store: string
  readonly hold: Pick<Hold, 'resource' | 'isHeld'>
}

/** What an acquisition and the work under it share. */
export interface Flow {
  readonly frame: Frame
}

/** What a claim shows as its client, and where that is. */
export interface FlowTicket {
  readonly client: string
  readonly place: Place
}

/** A kind of store, for texts, and what tells it apart from others of its kind. */
export interface NamedStore {
  readonly name: string
  readonly identity: string
}

export interface FlowSettings {
  /** `show`: claims carry their flow. `detect`: and the client acts upon deadlocks. */
  readonly deadlocks: 'off' | 'show' | 'detect'
  readonly lockOrder: LockOrderOptions | null
  /** The flow of whoever started this process, where it has told. */
  readonly outerFlow: string | null
}

/** What is known of the order of names, one for all clients of a process, and who is told of what is wrong with it. */
export interface OrderKeeping {
  readonly order: LockOrder
  tell(backend: string, inversion: LockInversion, text: string, stacks: string): void
}

/** One for all clients of the process: what is taken from one store can be held up by what is waited for at another. */
const frames = new AsyncLocalStorage<Frame>()

/** Where the claims of holds are, for work that is put under one of them later. */
const places = new WeakMap<Standing, Place>()

const STACK_LINES = 60
const STACK_LINES_SHOWN = 12

/** Which claims belong to one piece of work. There is none where nobody asked for it, so that it costs nothing. */
export class Flows {
  readonly #runtime: Runtime
  readonly #store: NamedStore
  readonly #settings: FlowSettings
  readonly #ordering: OrderKeeping

  constructor(runtime: Runtime, store: NamedStore, settings: FlowSettings, ordering: OrderKeeping) {
    this.#runtime = runtime
    this.#store = store
    this.#settings = settings
    this.#ordering = ordering
  }

  /** What the claim of the next acquisition shows as its client; null where it carries no flow. */
  markNext(client: string, minHoldMs: number): FlowTicket | null {
    const { deadlocks } = this.#settings
    // A claim with a minimum stays in the store when its flow has given it back, and nobody can tell that from a hold.
    if (deadlocks === 'off' || minHoldMs > 0) return null
    const place = this.#nextPlace(frames.getStore())
    const { path } = place
    return path === null ? null : { client: writeFlowMark(client, path, deadlocks === 'detect'), place }
  }

  /** Runs `fn` as a flow of its own: what it takes one after the other belongs together. */
  run<T>(fn: (flow: string) => T): T {
    const outer = frames.getStore()
    const frame = newFrame(this.#newPlace(outer), true, true, outer)
    return frames.run(frame, () => fn(frame.place.path ?? ''))
  }

  /**
   * A flow for something that is acquired and then worked under. The work need not do one thing after the other, even where
   * the acquisition is part of what does: each thing it takes is inside of it, and beside the others.
   */
  begin(): Flow {
    const outer = frames.getStore()
    return { frame: newFrame(this.#nextPlace(outer), false, false, outer) }
  }

  /** Acquires what the flow begins with. Several that are acquired here are one thing, and have no order among them. */
  acquiring<T>({ frame }: Flow, fn: () => T): T {
    return frames.run(newFrame(frame.place, true, false, frame.outer), fn)
  }

  /** Runs `fn` as the work under what was acquired. */
  holding<T>({ frame }: Flow, holds: readonly Hold[], fn: () => T): T {
    frame.holds = holds.map((hold) => ({ store: this.#store.identity, hold }))
    return frames.run(frame, fn)
  }

  /** Runs `fn` as work under a hold that was acquired before. */
  within<T>(hold: Hold, fn: () => T): T {
    const outer = frames.getStore()
    const place = hold instanceof StoreHold ? places.get(hold.standing) : undefined
    const frame = newFrame(place ?? outer?.place ?? this.#newPlace(outer), false, false, outer)
    return this.holding({ frame }, [hold], fn)
  }

  /** Throws, or tells, if a name is about to be taken in the opposite order of what was seen before. */
  checkOrder(name: string): void {
    const { lockOrder } = this.#settings
    if (lockOrder === null) return
    const taken = { store: this.#store.identity, name }
    for (let frame = frames.getStore(); frame !== undefined; frame = frame.outer) {
      for (const { store, hold } of frame.holds) {
        if (!hold.isHeld) continue
        const held = { store, name: hold.resource }
        const inversion = this.#ordering.order.check(held, taken, lockOrder, stackHere)
        if (inversion !== null) this.#tell(inversion, lockOrder)
      }
    }
  }

  /** Remembers a hold that was taken without `run()`, in a flow that does one thing after the other. */
  took(hold: Hold, flow: Flow | null): void {
    if (flow === null) return
    const { frame } = flow
    const store = this.#store.identity
    frame.holds = [...frame.holds.filter((taken) => taken.hold.isHeld), { store, hold }]
  }

  /** Remembers where a hold is that was granted to the claim with this ticket. */
  locate(hold: StoreHold, ticket: FlowTicket | null): void {
    if (ticket !== null) places.set(hold.standing, ticket.place)
  }

  /** Where `took()` is to remember it: only what `run()` of the client has begun says that one thing follows the other. */
  collecting(): Flow | null {
    const frame = this.#settings.lockOrder === null ? undefined : frames.getStore()
    return frame?.collects ? { frame } : null
  }

  #tell(inversion: LockInversion, { mode }: LockOrderOptions): void {
    const text = describeInversion(inversion)
    const stacks = stacksOf(inversion)
    if (mode === 'warn') this.#ordering.tell(this.#store.name, inversion, text, stacks)
    else {
      const context = { resource: inversion.now.taken, backend: this.#store.name }
      throw new LockOrderError(`${text}\n${stacks}`, inversion, context)
    }
  }

  /** Where the next thing is taken: what one thing after the other is taken in has it itself. */
  #nextPlace(frame: Frame | undefined): Place {
    return frame?.isOne ? frame.place : this.#newPlace(frame)
  }

  #newPlace(outer: Frame | undefined): Place {
    return { path: this.#newPath(outer?.place), inside: 0 }
  }

  #newPath(outer: Place | undefined): string | null {
    if (outer !== undefined) {
      outer.inside += 1
      return outer.path === null ? null : pathInside(outer.path, outer.inside.toString(36))
    }
    const { outerFlow } = this.#settings
    const id = this.#runtime.random.id()
    // Others may be started by the same process, and must not be taken for this one.
    if (outerFlow !== null && isFlowPath(outerFlow)) return pathInside(outerFlow, randomPart(id))
    return id.slice(0, 16)
  }
}

function newFrame(place: Place, isOne: boolean, collects: boolean, outer: Frame | undefined): Frame {
  return { place, isOne, collects, holds: [], outer }
}

/** Where the caller stands, without the lines of the library and of Node itself. Only made for an order that is new. */
function stackHere(): string {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = STACK_LINES
  const [, own = '', ...lines] = (new Error('taken').stack ?? '').split('\n')
  Error.stackTraceLimit = stackTraceLimit
  // This line is in the library's own folder: one for all where it is built, and a folder of it in its source.
  const folder = /(?:\(| at )([^()]*[/\\])[^/\\]+$/.exec(own)?.[1]?.replace(/core[/\\]$/, '') ?? own
  const callers = lines.filter((line) => !line.includes(folder) && !line.includes('node:'))
  return (callers.length === 0 ? lines : callers).slice(0, STACK_LINES_SHOWN).join('\n')
}
