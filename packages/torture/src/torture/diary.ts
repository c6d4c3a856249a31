/** What one worker process writes down: its history, what it complains about, and what it put into plain files. */

import { openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { EventName, EventType, EventValue } from '../history/format.js'
import { nowMicros, Recorder } from '../history/recorder.js'
import type { PlainAdd } from '../oracles/plain-set.js'
import type { Complaint } from './protocol.js'

export class Diary {
  readonly process: string
  readonly #recorder: Recorder
  readonly #complaints: number
  readonly #adds: number

  constructor(folder: string, process: string) {
    this.process = process
    this.#recorder = new Recorder(join(folder, `${process}.jsonl`))
    this.#recorder.header({ writer: process })
    this.#complaints = openSync(join(folder, `complaints-${process}.log`), 'a')
    this.#adds = openSync(join(folder, `adds-${process}.log`), 'a')
  }

  /** Stamped here and now: a call before it is made, and after it has come back. */
  note(p: string, f: EventName, type: EventType, k: string, v?: EventValue): void {
    this.#recorder.event(f, type, p, k, v)
  }

  complain(kind: Complaint['kind'], p: string, resource: string, message: string): void {
    const complaint: Complaint = { t: nowMicros(), p, kind, resource, message }
    writeSync(this.#complaints, `${JSON.stringify(complaint)}\n`)
  }

  plainAdd(add: PlainAdd): void {
    writeSync(this.#adds, `${JSON.stringify(add)}\n`)
  }
}

/** What an error was, with where it came from: short enough for a line, long enough to find it. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return `something that is no error was thrown: ${String(error)}`
  const from = error.stack?.split('\n').find((line) => line.includes(' at ')) ?? ''
  const cause =
    error.cause instanceof Error ? ` (because of ${error.cause.name}: ${error.cause.message})` : ''
  return `${error.name}: ${error.message}${cause}${from === '' ? '' : ` [${from.trim()}]`}`
}
