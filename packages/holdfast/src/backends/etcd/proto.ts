/**
 * As much of the protocol buffers encoding as etcd's messages need. A message is a table of fields. Fields that are not in
 * the table are passed over, so a newer server can be understood; what is no message at all is a `ProtoError`.
 */

/** What came is not what the table says, or was cut off. */
export class ProtoError extends Error {
  override readonly name = 'ProtoError'
}

const VARINT = 0
const FIXED64 = 1
const LENGTH = 2
const START_GROUP = 3
const END_GROUP = 4
const FIXED32 = 5

const EMPTY: Buffer = Buffer.alloc(0)
/** Up to here the sum of a varint is exact as a number: seven bytes of seven bits. */
const EXACT_BYTES = 7
const VARINT_BYTES_MAX = 10
/** Deeper than any message of etcd, and not so deep that a hostile one could exhaust the stack. */
const DEPTH_MAX = 32

/** Collects the bytes of a message. */
export class Writer {
  readonly #parts: Buffer[] = []
  #small: number[] = []

  varint(value: bigint | number): void {
    if (typeof value === 'number' && value >= 0 && value <= 0x7f) {
      this.#small.push(value)
      return
    }
    let rest = BigInt.asUintN(64, BigInt(value))
    while (rest > 0x7fn) {
      this.#small.push(Number(rest & 0x7fn) | 0x80)
      rest >>= 7n
    }
    this.#small.push(Number(rest))
  }

  bytes(value: Buffer): void {
    this.varint(value.length)
    this.#flush()
    this.#parts.push(value)
  }

  finish(): Buffer {
    this.#flush()
    return this.#parts.length === 1 ? (this.#parts[0] as Buffer) : Buffer.concat(this.#parts)
  }

  #flush(): void {
    if (this.#small.length === 0) return
    this.#parts.push(Buffer.from(this.#small))
    this.#small = []
  }
}

/** Takes the bytes of a message apart. */
export class Reader {
  readonly #buffer: Buffer
  readonly depth: number
  #at = 0

  constructor(buffer: Buffer, depth = 0) {
    if (depth > DEPTH_MAX) throw new ProtoError('The message is nested too deeply.')
    this.#buffer = buffer
    this.depth = depth
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#buffer.length
  }

  varint(): bigint {
    let sum = 0
    let factor = 1
    for (let count = 0; count < EXACT_BYTES; count += 1) {
      const byte = this.#byte()
      sum += (byte & 0x7f) * factor
      if (byte < 0x80) return BigInt(sum)
      factor *= 128
    }
    let big = BigInt(sum)
    for (let count = EXACT_BYTES; count < VARINT_BYTES_MAX; count += 1) {
      const byte = this.#byte()
      big |= BigInt(byte & 0x7f) << BigInt(7 * count)
      if (byte < 0x80) return BigInt.asUintN(64, big)
    }
    throw new ProtoError('A number is longer than ten bytes.')
  }

  /** A number that must be small: a length, a tag or a choice. */
  small(): number {
    return Number(BigInt.asUintN(53, this.varint()))
  }

  bytes(): Buffer {
    const length = this.small()
    const end = this.#at + length
    if (end > this.#buffer.length) throw new ProtoError('The message is cut off.')
    const found = this.#buffer.subarray(this.#at, end)
    this.#at = end
    return found
  }

  skip(wire: number): void {
    switch (wire) {
      case VARINT:
        this.varint()
        return
      case FIXED64:
        this.#advance(8)
        return
      case LENGTH:
        this.bytes()
        return
      case FIXED32:
        this.#advance(4)
        return
      // Groups are from before this protocol. Nobody sends them, so what looks like one is none.
      case START_GROUP:
      case END_GROUP:
      default:
        throw new ProtoError(`There is no kind ${wire} of field.`)
    }
  }

  #byte(): number {
    const byte = this.#buffer[this.#at]
    if (byte === undefined) throw new ProtoError('The message is cut off.')
    this.#at += 1
    return byte
  }

  #advance(count: number): void {
    this.#at += count
    if (this.#at > this.#buffer.length) throw new ProtoError('The message is cut off.')
  }
}

/**
 * One field: what is given to write it, and what comes of reading it. These are methods, so that fields of all types fit in
 * one table.
 */
export interface Field<Out, In = Out> {
  readonly tag: number
  readonly absent: Out
  write(writer: Writer, value: In): void
  /** The value after one more occurrence of the field; `wire` says how it was written. */
  read(reader: Reader, wire: number, before: Out): Out
}

export type Fields = Readonly<Record<string, Field<unknown>>>
type OutOf<F> = F extends Field<infer Out, infer _In> ? Out : never
type InOf<F> = F extends Field<infer _Out, infer In> ? In : never
/** What a message has after it was read: every field, those that were not sent with their default. */
export type Message<F extends Fields> = { readonly [K in keyof F]: OutOf<F[K]> }
/** What is given to write: only what is not the default. */
export type Sent<F extends Fields> = { readonly [K in keyof F]?: InOf<F[K]> }

export interface Codec<F extends Fields> {
  encode(value: Sent<F>): Buffer
  decode(buffer: Buffer, depth?: number): Message<F>
}

export type Decoded<C> = C extends Codec<infer F> ? Message<F> : never
export type Encoded<C> = C extends Codec<infer F> ? Sent<F> : never

export function message<F extends Fields>(fields: F): Codec<F> {
  const entries = Object.entries(fields)
  const byTag = new Map(entries.map(([name, field]) => [field.tag, { name, field }]))
  const absent = Object.fromEntries(entries.map(([name, field]) => [name, field.absent]))
  return {
    encode(value) {
      const writer = new Writer()
      for (const [name, field] of entries) {
        const given: unknown = value[name]
        if (given !== undefined) field.write(writer, given)
      }
      return writer.finish()
    },
    decode(buffer, depth = 0) {
      const reader = new Reader(buffer, depth)
      const found: Record<string, unknown> = { ...absent }
      while (!reader.isAtEnd) {
        const key = reader.small()
        const known = byTag.get(Math.floor(key / 8))
        const wire = key % 8
        if (known === undefined) reader.skip(wire)
        else found[known.name] = known.field.read(reader, wire, found[known.name])
      }
      return found as Message<F>
    },
  }
}

/** How one kind of plain value is written, and its default, which is left out. */
interface Kind<T> {
  readonly wire: number
  readonly absent: T
  write(writer: Writer, value: T): void
  read(reader: Reader): T
}

const INT64: Kind<bigint> = {
  wire: VARINT,
  absent: 0n,
  write: (writer, value) => writer.varint(value),
  read: (reader) => BigInt.asIntN(64, reader.varint()),
}
const UINT64: Kind<bigint> = { ...INT64, read: (reader) => reader.varint() }
const CHOICE: Kind<number> = {
  wire: VARINT,
  absent: 0,
  write: (writer, value) => writer.varint(value),
  read: (reader) => Number(BigInt.asIntN(32, reader.varint())),
}
const BOOL: Kind<boolean> = {
  wire: VARINT,
  absent: false,
  write: (writer, value) => writer.varint(value ? 1 : 0),
  read: (reader) => reader.varint() !== 0n,
}
const BYTES: Kind<Buffer> = {
  wire: LENGTH,
  absent: EMPTY,
  write: (writer, value) => writer.bytes(value),
  read: (reader) => reader.bytes(),
}
const TEXT: Kind<string> = {
  wire: LENGTH,
  absent: '',
  write: (writer, value) => writer.bytes(Buffer.from(value)),
  read: (reader) => reader.bytes().toString('utf8'),
}

function plain<T>(tag: number, kind: Kind<T>): Field<T> {
  return {
    tag,
    absent: kind.absent,
    write(writer, value) {
      if (value !== kind.absent) put(writer, tag, kind, value)
    },
    read: (reader, wire) => take(reader, wire, tag, kind),
  }
}

function put<T>(writer: Writer, tag: number, kind: Kind<T>, value: T): void {
  writer.varint(tag * 8 + kind.wire)
  kind.write(writer, value)
}

function take<T>(reader: Reader, wire: number, tag: number, kind: Kind<T>): T {
  if (wire !== kind.wire) throw new ProtoError(`Field ${tag} is not written as it should be.`)
  return kind.read(reader)
}

export const int64 = (tag: number): Field<bigint> => plain(tag, INT64)
export const uint64 = (tag: number): Field<bigint> => plain(tag, UINT64)
/** One of a few choices. */
export const choice = (tag: number): Field<number> => plain(tag, CHOICE)
export const bool = (tag: number): Field<boolean> => plain(tag, BOOL)
export const bytes = (tag: number): Field<Buffer> => plain(tag, BYTES)
export const text = (tag: number): Field<string> => plain(tag, TEXT)

/** A number of which it matters whether it was given: a zero is written, and null is not. */
export function given64(tag: number): Field<bigint | null> {
  return {
    tag,
    absent: null,
    write(writer, value) {
      if (value !== null) put(writer, tag, INT64, value)
    },
    read: (reader, wire) => take(reader, wire, tag, INT64),
  }
}

/** A message inside another one; null where there is none. One that is given is written even if it is empty. */
export function nested<F extends Fields>(
  tag: number,
  codec: Codec<F>,
): Field<Message<F> | null, Sent<F> | null> {
  return {
    tag,
    absent: null,
    write(writer, value) {
      if (value !== null) put(writer, tag, BYTES, codec.encode(value))
    },
    read: (reader, wire) => codec.decode(take(reader, wire, tag, BYTES), reader.depth + 1),
  }
}

/** Several messages in a row. */
export function listOf<F extends Fields>(
  tag: number,
  codec: Codec<F>,
): Field<readonly Message<F>[], readonly Sent<F>[]> {
  const absent: readonly Message<F>[] = []
  return {
    tag,
    absent,
    write(writer, values) {
      for (const value of values) put(writer, tag, BYTES, codec.encode(value))
    },
    read(reader, wire, before) {
      return appended(before, absent, codec.decode(take(reader, wire, tag, BYTES), reader.depth + 1))
    },
  }
}

/** Several plain values in a row, each with its tag. */
function severalOf<T>(tag: number, kind: Kind<T>): Field<readonly T[]> {
  const absent: readonly T[] = []
  return {
    tag,
    absent,
    write(writer, values) {
      for (const value of values) put(writer, tag, kind, value)
    },
    read: (reader, wire, before) => appended(before, absent, take(reader, wire, tag, kind)),
  }
}

export const texts = (tag: number): Field<readonly string[]> => severalOf(tag, TEXT)
export const choices = (tag: number): Field<readonly number[]> => severalOf(tag, CHOICE)

/** The list that a message is being read into grows; the default, which all messages share, does not. */
function appended<T>(before: readonly T[], absent: readonly T[], next: T): readonly T[] {
  if (before === absent) return [next]
  const growing = before as T[]
  growing.push(next)
  return growing
}
