import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  Compare,
  KeyValue,
  LeaseKeepAliveResponse,
  RangeResponse,
  TxnRequest,
  TxnResponse,
  WatchResponse,
} from '../../src/backends/etcd/messages.js'
import {
  bytes,
  int64,
  listOf,
  message,
  nested,
  ProtoError,
  text,
  Writer,
} from '../../src/backends/etcd/proto.js'

const int = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
const buffer = fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array))
const keyValue = fc.record({
  key: buffer,
  createRevision: int,
  modRevision: int,
  version: int,
  value: buffer,
  lease: int,
})

/** Whatever it is given, it reads it or says that it is none. */
function reads(decode: (bytes: Buffer) => unknown, garbage: Buffer): boolean {
  try {
    decode(garbage)
    return true
  } catch (error) {
    expect(error).toBeInstanceOf(ProtoError)
    return false
  }
}

describe('what is written is read again', () => {
  test('keys, with numbers of any size', () => {
    fc.assert(
      fc.property(keyValue, (kv) => {
        expect(KeyValue.decode(KeyValue.encode(kv))).toEqual(kv)
      }),
    )
  })

  test('lists of messages within messages', () => {
    const header = fc.record({
      clusterId: fc.bigInt(0n, 2n ** 64n - 1n),
      memberId: fc.constant(7n),
      revision: int,
      raftTerm: fc.constant(0n),
    })
    const range = fc.record({
      header,
      kvs: fc.array(keyValue, { maxLength: 5 }),
      more: fc.boolean(),
      count: int,
    })
    fc.assert(
      fc.property(range, fc.boolean(), (given, succeeded) => {
        expect(RangeResponse.decode(RangeResponse.encode(given))).toEqual(given)
        const responses = [{ range: { kvs: given.kvs }, put: null, deleteRange: null }]
        const txn = { header: null, succeeded, responses }
        expect(TxnResponse.decode(TxnResponse.encode(txn))).toEqual(txn)
      }),
    )
  })

  test('texts of any characters', () => {
    const codec = message({ one: text(1), two: text(99) })
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }), (one, two) => {
        const wellFormed = { one: one.toWellFormed(), two }
        expect(codec.decode(codec.encode(wellFormed))).toEqual(wellFormed)
      }),
    )
  })
})

describe('the bytes are those of the protocol', () => {
  test('as its documentation has them', () => {
    const codec = message({ a: int64(1), b: text(2), c: nested(3, message({ a: int64(1) })) })
    expect(codec.encode({ a: 150n }).toString('hex')).toBe('089601')
    expect(codec.encode({ b: 'testing' }).toString('hex')).toBe('120774657374696e67')
    expect(codec.encode({ c: { a: 150n } }).toString('hex')).toBe('1a03089601')
    expect(codec.encode({ a: -1n }).toString('hex')).toBe('08ffffffffffffffffff01')
    expect(codec.encode({}).length).toBe(0)
    expect(codec.encode({ c: {} }).toString('hex')).toBe('1a00')
  })

  test('a comparison with revision 0 says so, and a plain number does not', () => {
    expect(Compare.encode({ createRevision: 0n }).toString('hex')).toBe('2800')
    expect(KeyValue.encode({ createRevision: 0n }).length).toBe(0)
  })
})

describe('what comes from outside', () => {
  test('fields that are not known are passed over, whatever they hold', () => {
    const writer = new Writer()
    writer.varint(200 * 8)
    writer.varint(2n ** 63n)
    writer.varint(201 * 8 + 2)
    writer.bytes(Buffer.from('something new'))
    const fixed = Buffer.concat([Buffer.of(0x7d, 1, 2, 3, 4), Buffer.of(0x79, 1, 2, 3, 4, 5, 6, 7, 8)])
    const known = LeaseKeepAliveResponse.encode({ id: 5n, ttl: 60n })
    const read = LeaseKeepAliveResponse.decode(Buffer.concat([writer.finish(), known, fixed]))
    expect(read).toEqual({ header: null, id: 5n, ttl: 60n })
  })

  test('garbage is read or refused, and nothing else happens', () => {
    let read = 0
    const codecs = [TxnResponse, WatchResponse, TxnRequest, RangeResponse]
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.constantFrom(...codecs), (array, codec) => {
        if (reads((given) => codec.decode(given), Buffer.from(array))) read += 1
      }),
      { numRuns: 20_000 },
    )
    expect(read).toBeGreaterThan(0)
  })

  test('a message that was cut off, or had a byte changed, is read or refused', () => {
    fc.assert(
      fc.property(
        fc.array(keyValue, { minLength: 1, maxLength: 4 }),
        fc.nat(),
        fc.nat(255),
        (kvs, at, byte) => {
          const whole = RangeResponse.encode({ kvs, more: true, count: 3n })
          reads((given) => RangeResponse.decode(given), whole.subarray(0, at % whole.length))
          const changed = Buffer.from(whole)
          changed[at % changed.length] = byte
          reads((given) => RangeResponse.decode(given), changed)
        },
      ),
      { numRuns: 5_000 },
    )
  })

  test('a length beyond the end, a number that never ends and endless nesting are refused', () => {
    expect(() => KeyValue.decode(Buffer.of(0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f))).toThrow(ProtoError)
    expect(() => KeyValue.decode(Buffer.alloc(30, 0xff))).toThrow(ProtoError)
    expect(() => KeyValue.decode(Buffer.of(0x0b))).toThrow(ProtoError)
    // One that contains itself, as no table of etcd's does.
    const inner: { read: (buffer: Buffer, depth: number) => unknown } = { read: () => null }
    const self = message({
      self: {
        tag: 1,
        absent: null,
        write: () => {},
        read: (reader, _wire) => inner.read(reader.bytes(), reader.depth + 1),
      },
      bytes: bytes(2),
      more: listOf(3, message({})),
    })
    inner.read = (buffer, depth) => self.decode(buffer, depth)
    let deep = Buffer.alloc(0)
    for (let count = 0; count < 40; count += 1) deep = Buffer.concat([Buffer.of(0x0a, deep.length), deep])
    expect(() => self.decode(deep)).toThrow('nested too deeply')
  })

  test('a default that messages share does not grow', () => {
    RangeResponse.decode(
      RangeResponse.encode({ kvs: [{ key: Buffer.from('a') }, { key: Buffer.from('b') }] }),
    )
    expect(RangeResponse.decode(Buffer.alloc(0)).kvs).toEqual([])
  })
})
