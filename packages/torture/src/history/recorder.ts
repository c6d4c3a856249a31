import { closeSync, openSync, writeSync } from 'node:fs'
import type {
  EventName,
  EventType,
  EventValue,
  HeaderLine,
  HistoryEvent,
  HistoryLine,
  Micros,
} from './format.js'

/** Microseconds on CLOCK_MONOTONIC, which all processes of one machine share. */
export function nowMicros(): Micros {
  return Number(process.hrtime.bigint() / 1_000n)
}

/**
 * What to add to a moment of `performance.now()`, in microseconds. Both clocks tick alike and differ by when they began.
 * The shared one is read first, so whatever passes between the two readings makes the difference smaller than it is, and a
 * moment come out too early rather than too late: a hold that seems to end early can only hide an overlap, and never make
 * one up. The largest of several differences is the one that hides least.
 */
export function measureOffset(sharedMicros: () => number, ownMs: () => number): number {
  let offset = Number.NEGATIVE_INFINITY
  for (let round = 0; round < 20; round += 1) {
    const shared = sharedMicros()
    offset = Math.max(offset, shared - ownMs() * 1_000)
  }
  return offset
}

const offset = measureOffset(
  () => Number(process.hrtime.bigint()) / 1_000,
  () => performance.now(),
)

/** A moment of `performance.now()`, such as the deadline of a hold, on the clock of histories. */
export function microsAt(performanceMs: number): Micros {
  return Math.floor(performanceMs * 1_000 + offset)
}

/** What a header says besides its format. */
export type HeaderFields = Omit<HeaderLine, 'format'>

/** Where a history is written to. Each event is stamped as it comes: before a call is made, and after it came back. */
export interface HistorySink {
  header(fields: HeaderFields): void
  event(f: EventName, type: EventType, p: string, k: string, v?: EventValue): void
}

/**
 * Appends a history to a file of this process. Each line is in the hands of the operating system before the next
 * statement runs, so a process that is killed leaves behind what it had begun.
 */
export class Recorder implements HistorySink {
  readonly #file: number
  readonly #now: () => Micros
  #open = true

  constructor(path: string, now: () => Micros = nowMicros) {
    this.#file = openSync(path, 'a')
    this.#now = now
  }

  header(fields: HeaderFields): void {
    this.#write(JSON.stringify({ format: 'holdfast-history/1', ...fields } satisfies HeaderLine))
  }

  event(f: EventName, type: EventType, p: string, k: string, v?: EventValue): void {
    const t = this.#now()
    const value = v === undefined ? '' : `,"v":${JSON.stringify(v)}`
    this.#write(
      `{"t":${t},"p":${JSON.stringify(p)},"f":"${f}","type":"${type}","k":${JSON.stringify(k)}${value}}`,
    )
  }

  /** What comes later is dropped: a call may still be under way when a process closes its books. */
  close(): void {
    if (!this.#open) return
    this.#open = false
    closeSync(this.#file)
  }

  #write(line: string): void {
    if (!this.#open) return
    const bytes = Buffer.from(`${line}\n`)
    // On a full pipe or disk fewer bytes may be taken; half a line would spoil the next one too.
    for (let done = 0; done < bytes.length; ) done += writeSync(this.#file, bytes, done)
  }
}

/** Keeps a history in memory, for runs that live in one process. */
export class MemoryHistory implements HistorySink {
  readonly lines: HistoryLine[] = []
  readonly #now: () => Micros

  constructor(now: () => Micros = nowMicros) {
    this.#now = now
  }

  header(fields: HeaderFields): void {
    this.lines.push({ format: 'holdfast-history/1', ...fields })
  }

  event(f: EventName, type: EventType, p: string, k: string, v?: EventValue): void {
    const event: HistoryEvent = { t: this.#now(), p, f, type, k }
    this.lines.push(v === undefined ? event : { ...event, v })
  }
}
