/**
 * A counter in a plain file that refuses stale holders by itself. The file is only ever appended to, one short line
 * by one write, which the system keeps whole and in one order for everybody. Every line carries a fence, and
 *
 *     a line counts unless a higher fence stands on a line before it.
 *
 * So all readers agree on what counts, whoever wrote it and however late. A holder opens with its fence first and
 * reads then: from that line on nobody with a lower fence can change what it has read.
 */

import { closeSync, openSync, readSync, writeSync } from 'node:fs'

export type LogRecord =
  | { readonly kind: 'open'; readonly fence: bigint; readonly pid: number }
  | { readonly kind: 'set'; readonly fence: bigint; readonly value: number; readonly operation: string }

const CHUNK_BYTES = 64 * 1024

export class FencedLog {
  readonly #fd: number
  readonly #onRecord: (record: LogRecord, counts: boolean) => void
  #offset = 0
  #partial = ''
  #highest = 0n
  #value = 0

  constructor(path: string, onRecord: (record: LogRecord, counts: boolean) => void = () => {}) {
    this.#fd = openSync(path, 'a+')
    this.#onRecord = onRecord
  }

  get value(): number {
    return this.#value
  }

  /** Shuts out every lower fence. Read after this, not before. */
  open(fence: bigint): void {
    writeSync(this.#fd, `open ${fence} ${process.pid}\n`)
  }

  set(fence: bigint, value: number, operation: string): void {
    writeSync(this.#fd, `set ${fence} ${value} ${operation}\n`)
  }

  /** Reads what was added since the last time. */
  catchUp(): void {
    const chunk = Buffer.alloc(CHUNK_BYTES)
    for (;;) {
      const length = readSync(this.#fd, chunk, 0, CHUNK_BYTES, this.#offset)
      if (length === 0) return
      this.#offset += length
      const lines = (this.#partial + chunk.toString('latin1', 0, length)).split('\n')
      this.#partial = lines.pop() ?? ''
      for (const line of lines) this.#read(parseRecord(line))
    }
  }

  close(): void {
    closeSync(this.#fd)
  }

  #read(record: LogRecord): void {
    const counts = record.fence >= this.#highest
    if (counts) {
      this.#highest = record.fence
      if (record.kind === 'set') this.#value = record.value
    }
    this.#onRecord(record, counts)
  }
}

function parseRecord(line: string): LogRecord {
  const opened = /^open (\d+) (\d+)$/.exec(line)
  if (opened !== null) return { kind: 'open', fence: BigInt(opened[1] as string), pid: Number(opened[2]) }
  const set = /^set (\d+) (\d+) (\S+)$/.exec(line)
  if (set === null) throw new Error(`A line of the log makes no sense: ${JSON.stringify(line)}`)
  const [, fence, value, operation] = set as unknown as [string, string, string, string]
  return { kind: 'set', fence: BigInt(fence), value: Number(value), operation }
}
