/** What the tasks of one worker share. */

import type { LockClient } from './subject.js'
import { subjectNamed } from './subjects.js'

export class Workplace {
  readonly port: number
  readonly #clients = new Map<string, Promise<LockClient>>()

  constructor(port: number) {
    this.port = port
  }

  /** The connections stay open from one task to the next. */
  client(subject: string): Promise<LockClient> {
    const known = this.#clients.get(subject)
    if (known !== undefined) return known
    const opened = subjectNamed(subject).open(this.port)
    this.#clients.set(subject, opened)
    return opened
  }
}
