/** The encoding of ZooKeeper's records. What is read comes from outside: every length is checked before it is used. */

import { garbage } from './errors.js'

const FIRST_SIZE = 128

/** Writes one frame: four bytes for its length, then the records. */
export class JuteWriter {
  #buffer = Buffer.allocUnsafe(FIRST_SIZE)
  #length = 4

  int(value: number): this {
    this.#room(4)
    this.#length = this.#buffer.writeInt32BE(value, this.#length)
    return this
  }

  long(value: bigint): this {
    this.#room(8)
    this.#length = this.#buffer.writeBigInt64BE(value, this.#length)
    return this
  }

  bool(value: boolean): this {
    this.#room(1)
    this.#length = this.#buffer.writeUInt8(value ? 1 : 0, this.#length)
    return this
  }

  text(value: string): this {
    const size = Buffer.byteLength(value)
    this.int(size)
    this.#room(size)
    this.#length += this.#buffer.write(value, this.#length, size, 'utf8')
    return this
  }

  buffer(value: Buffer): this {
    this.int(value.length)
    this.#room(value.length)
    this.#length += value.copy(this.#buffer, this.#length)
    return this
  }

  vector<T>(items: readonly T[], write: (item: T) => void): this {
    this.int(items.length)
    for (const item of items) write(item)
    return this
  }

  frame(): Buffer {
    this.#buffer.writeInt32BE(this.#length - 4, 0)
    return this.#buffer.subarray(0, this.#length)
  }

  #room(bytes: number): void {
    const wanted = this.#length + bytes
    if (wanted <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(wanted, this.#buffer.length * 2))
    this.#buffer.copy(larger, 0, 0, this.#length)
    this.#buffer = larger
  }
}

/** Reads the records of one frame. Throws a PROTOCOL error where the frame does not hold what it should. */
export class JuteReader {
  readonly #frame: Buffer
  #at = 0

  constructor(frame: Buffer) {
    this.#frame = frame
  }

  get left(): number {
    return this.#frame.length - this.#at
  }

  int(): number {
    return this.#frame.readInt32BE(this.#take(4))
  }

  long(): bigint {
    return this.#frame.readBigInt64BE(this.#take(8))
  }

  bool(): boolean {
    return this.#frame.readUInt8(this.#take(1)) !== 0
  }

  text(): string {
    const bytes = this.#bytes()
    return bytes === null ? '' : bytes.toString('utf8')
  }

  /** A copy, because the frame may be a small part of a large piece of memory. */
  buffer(): Buffer {
    const bytes = this.#bytes()
    return bytes === null ? Buffer.alloc(0) : Buffer.from(bytes)
  }

  /** `leastBytes` is the size of the smallest item: a vector that cannot be in the frame is refused at once. */
  vector<T>(leastBytes: number, read: () => T): T[] {
    const count = this.int()
    if (count === -1) return []
    if (count < 0 || count * leastBytes > this.left) throw garbage(`a list of ${count} items is cut off`)
    const items: T[] = []
    for (let index = 0; index < count; index += 1) items.push(read())
    return items
  }

  #bytes(): Buffer | null {
    const length = this.int()
    if (length === -1) return null
    if (length < 0) throw garbage(`a text has ${length} bytes`)
    const start = this.#take(length)
    return this.#frame.subarray(start, start + length)
  }

  #take(bytes: number): number {
    const start = this.#at
    if (bytes > this.left) throw garbage(`a record is cut off: ${bytes} bytes expected, ${this.left} there`)
    this.#at += bytes
    return start
  }
}
