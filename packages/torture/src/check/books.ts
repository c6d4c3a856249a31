import { type HistoryEvent, type Micros, processOf, type ResourceNote } from '../history/format.js'
import { type Caller, openOf, takeOpen } from './caller.js'
import { type Call, type Hold, type HoldEnd, type ResourceBook, saysNotHeld } from './calls.js'
import { endHold, fenceOf, freeHold, learnUntil } from './hold-facts.js'
import type { Violation } from './verdict.js'

interface Eviction {
  readonly asked: Micros
  ended: Micros
}

interface OpenBook extends ResourceBook {
  readonly callers: Map<string, Caller>
  readonly evictions: Map<Call, Eviction>
  readonly reentrant: boolean
}

export interface Books {
  readonly resources: ReadonlyMap<string, ResourceBook>
  /** Lines that make no sense where they stand. */
  readonly malformed: readonly Violation[]
}

/**
 * Goes through a history once, in order of time, and pairs every call with what came of it, and every hold with what
 * ended it.
 */
export function booksOf(events: readonly HistoryEvent[], noteOf: (resource: string) => ResourceNote): Books {
  const clerk = new Clerk(noteOf)
  for (const event of events) clerk.enter(event)
  return clerk.close(events.at(-1)?.t ?? 0)
}

class Clerk {
  readonly #books = new Map<string, OpenBook>()
  readonly #malformed: Violation[] = []
  readonly #noteOf: (resource: string) => ResourceNote
  /** When a process was last heard of, which is how long it certainly lived if nobody knows better. */
  readonly #heardOf = new Map<string, { at: Micros }>()
  readonly #killed = new Map<string, Micros>()

  constructor(noteOf: (resource: string) => ResourceNote) {
    this.#noteOf = noteOf
  }

  enter(event: HistoryEvent): void {
    const { f } = event
    if (f === 'fault-begin') {
      if (event.v?.fault === 'kill') this.#killed.set(event.v.target ?? '', event.t)
      return
    }
    if (f === 'fault-end') return
    if (f === 'death') {
      this.#bury(event)
      return
    }
    if (f === 'stall') {
      this.#heardOfProcess(event.p, event.t).at = event.t
      return
    }
    const book = this.#bookOf(event.k)
    const caller = this.#callerOf(book, event)
    caller.heard.at = event.t
    if (event.type === 'invoke') this.#begin(book, caller, event)
    else if (event.type === 'note') note(book, caller, event)
    else this.#complete(book, caller, event, event.type)
  }

  close(end: Micros): Books {
    for (const book of this.#books.values()) {
      for (const caller of book.callers.values()) {
        endAll(caller, end + 1, 'open')
        for (const call of caller.open) call.ended = end + 1
      }
      for (const hold of book.holds) {
        if (hold.to >= hold.from) continue
        // The answer came when the time had run out already, so there was never anything to believe in.
        hold.to = hold.from
        hold.doubtful = true
      }
      doubtWhatWasEvicted(book)
    }
    return { resources: this.#books, malformed: this.#malformed }
  }

  #bookOf(resource: string): OpenBook {
    let book = this.#books.get(resource)
    if (book === undefined) {
      book = {
        name: resource,
        calls: [],
        holds: [],
        losses: [],
        tripped: [],
        callers: new Map(),
        evictions: new Map(),
        reentrant: this.#noteOf(resource).reentrant === true,
      }
      this.#books.set(resource, book)
    }
    return book
  }

  #callerOf(book: OpenBook, { p, t }: HistoryEvent): Caller {
    let caller = book.callers.get(p)
    if (caller === undefined) {
      caller = { name: p, heard: this.#heardOfProcess(p, t), open: [], holding: [], former: [] }
      book.callers.set(p, caller)
    }
    return caller
  }

  #heardOfProcess(caller: string, at: Micros): { at: Micros } {
    const process = processOf(caller)
    let heard = this.#heardOf.get(process)
    if (heard === undefined) {
      heard = { at }
      this.#heardOf.set(process, heard)
    }
    return heard
  }

  #begin(book: OpenBook, caller: Caller, event: HistoryEvent): void {
    if (takeOpen(caller, event.f) !== undefined) {
      this.#complain(event, `began ${event.f} again before the one before had come back`)
    }
    const call: Call = {
      p: event.p,
      f: event.f,
      asked: event.t,
      ended: Number.POSITIVE_INFINITY,
      outcome: 'open',
      input: event.v,
      output: undefined,
      hold: -1,
    }
    book.calls.push(call)
    caller.open.push(call)
    if (event.f === 'release') beginRelease(caller, call, event)
    else if (event.f === 'evict') {
      book.evictions.set(call, { asked: event.t, ended: Number.POSITIVE_INFINITY })
    }
  }

  #complete(book: OpenBook, caller: Caller, event: HistoryEvent, outcome: 'ok' | 'fail' | 'info'): void {
    const call = takeOpen(caller, event.f)
    if (call === undefined) {
      this.#complain(event, `says how ${event.f} ended, which had not begun`)
      return
    }
    call.ended = event.t
    call.outcome = outcome
    call.output = event.v
    if (event.f === 'release') completeRelease(book, caller, call)
    else if (event.f === 'evict') completeEviction(book, call)
    else if (outcome !== 'ok') return
    else if (event.f === 'acquire') grant(book, caller, call, event)
    else if (event.f === 'extend' || event.f === 'assert') {
      const held = caller.holding.at(-1)
      call.hold = held?.hold.number ?? -1
      if (held !== undefined) learnUntil(held.hold, event.v)
    }
  }

  /**
   * Nobody knows the very moment of a death. The process lived when the signal was about to be sent, and when it wrote
   * its last line; whatever it held, it held no longer than that for certain.
   */
  #bury(event: HistoryEvent): void {
    const process = processOf(event.p)
    const heardOf = this.#heardOf.get(process)?.at ?? event.t
    const lived = Math.min(event.t, Math.max(heardOf, this.#killed.get(process) ?? heardOf))
    this.#killed.delete(process)
    for (const book of this.#books.values()) {
      for (const caller of book.callers.values()) {
        if (processOf(caller.name) !== process) continue
        endAll(caller, lived, 'death')
        for (const call of caller.open) {
          call.ended = event.t
          call.outcome = 'info'
        }
        caller.open.length = 0
        caller.former.length = 0
      }
    }
  }

  #complain(event: HistoryEvent, what: string): void {
    this.#malformed.push({
      kind: 'malformed',
      resource: event.k,
      at: event.t,
      message: `At ${event.t}, ${event.p} ${what}.`,
    })
  }
}

function note(book: OpenBook, caller: Caller, event: HistoryEvent): void {
  if (event.f === 'queued') {
    const call = openOf(caller, 'acquire')
    if (call !== undefined) call.queued ??= event.t
    return
  }
  if (event.f === 'tripped') book.tripped.push(event)
  if (event.f !== 'lost') return
  const held = caller.holding.at(-1)
  if (held === undefined) return
  learnUntil(held.hold, event.v)
  const { number, from, until } = held.hold
  book.losses.push({ p: event.p, hold: number, from, reason: event.v?.error ?? '', at: event.t, until })
  endLast(caller, event.t, 'lost')
}

function grant(book: OpenBook, caller: Caller, call: Call, event: HistoryEvent): void {
  const fence = fenceOf(event.v)
  if (book.reentrant) leaveExpired(caller, call, fence)
  const held = caller.holding.at(-1)
  if (book.reentrant && held !== undefined) {
    held.depth++
    call.hold = held.hold.number
    held.hold.fence ??= fence
    learnUntil(held.hold, event.v)
    return
  }
  // What was asked for before a hold was over may have been given as part of it, and be over as well.
  const former = book.reentrant ? caller.former.at(-1)?.hold : undefined
  const joinsFormer =
    former !== undefined && call.asked <= former.to && (fence === null || fence === former.fence)
  const hold: Hold = {
    resource: book.name,
    p: caller.name,
    number: book.holds.length,
    mode: call.input?.mode ?? 'exclusive',
    weight: call.input?.weight ?? 1,
    fence: joinsFormer ? null : fence,
    asked: call.asked,
    since: event.v?.since ?? call.asked,
    request: event.v?.request ?? null,
    from: event.t,
    to: Number.POSITIVE_INFINITY,
    ended: 'open',
    granted: event.v?.until ?? null,
    until: event.v?.until ?? null,
    freed: null,
    minHoldMs: call.input?.minHoldMs ?? 0,
    downgraded: call.input?.downgrade === true,
    doubtful: joinsFormer,
  }
  call.hold = hold.number
  book.holds.push(hold)
  caller.holding.push({ hold, depth: 1 })
}

/** A hold that had run out cannot be acquired once more, unless its fence says that it is still the same. */
function leaveExpired(caller: Caller, call: Call, fence: bigint | null): void {
  const hold = caller.holding.at(-1)?.hold
  if (hold === undefined || hold.until === null || hold.until > call.ended) return
  const same = fence !== null && fence === hold.fence && call.asked <= hold.until
  if (!same) endLast(caller, hold.until, 'expired')
}

function beginRelease(caller: Caller, call: Call, event: HistoryEvent): void {
  const held = caller.holding.at(-1)
  if (held !== undefined) {
    call.hold = held.hold.number
    learnUntil(held.hold, event.v)
    return
  }
  const former = caller.former.at(-1)
  if (former === undefined) return
  call.hold = former.hold.number
  if (--former.depth === 0) caller.former.pop()
}

function completeRelease(book: OpenBook, caller: Caller, call: Call): void {
  if (call.outcome === 'fail' && !saysNotHeld(call.output?.error)) return
  const at = caller.holding.findLastIndex(({ hold }) => hold.number === call.hold)
  const held = caller.holding[at]
  if (held === undefined) {
    const hold = book.holds[call.hold]
    if (hold !== undefined && call.outcome === 'ok') freeHold(hold, call.ended)
    return
  }
  held.depth--
  if (held.depth > 0) return
  endHold(held.hold, call.asked, 'released')
  if (call.outcome === 'ok') freeHold(held.hold, call.ended)
  caller.holding.splice(at, 1)
}

/** From the moment before it asks for a release, a caller has no more right to think that it holds. */
function endLast(caller: Caller, at: Micros, how: HoldEnd): void {
  const held = caller.holding.pop()
  if (held === undefined) return
  const release = openOf(caller, 'release')
  const releasing = release?.hold === held.hold.number && held.depth === 1
  if (releasing && release.asked < at) {
    endHold(held.hold, release.asked, 'released')
    return
  }
  endHold(held.hold, at, how)
  const open = release?.hold === held.hold.number ? 1 : 0
  if (held.depth > open) caller.former.push({ hold: held.hold, depth: held.depth - open })
}

function endAll(caller: Caller, at: Micros, how: HoldEnd): void {
  while (caller.holding.length > 0) endLast(caller, at, how)
}

/** Whoever held when an operator was about to take it away can rely on nothing from then on. */
function completeEviction(book: OpenBook, call: Call): void {
  const eviction = book.evictions.get(call)
  if (eviction === undefined) return
  if (call.outcome === 'fail') {
    book.evictions.delete(call)
    return
  }
  if (call.outcome === 'ok') eviction.ended = call.ended
}

function doubtWhatWasEvicted(book: OpenBook): void {
  for (const { asked, ended } of book.evictions.values()) {
    for (const hold of book.holds) {
      if (hold.to <= asked || hold.asked >= ended) continue
      if (hold.from >= asked) hold.doubtful = true
      hold.to = Math.max(hold.from, Math.min(hold.to, asked))
      hold.ended = 'evicted'
    }
  }
}
