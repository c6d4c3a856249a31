// @module-tag effects
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidInputError, UnsupportedError } from '../../src/core/errors.js'
import { decodeValue, encodeValue, isStorable } from '../../src/idempotency/values.js'
import { encryptedCodec, jsonCodec } from '../../src/idempotency.js'

const ID = 'a'.repeat(64)

describe('values as text', () => {
  it('come back as they were, even a date that is none', () => {
    const date = decodeValue(encodeValue(new Date(Number.NaN)))
    expect(date).toBeInstanceOf(Date)
    expect(String(date)).toBe('Invalid Date')
  })

  it('come back as they were, and the text has no control characters and no half characters', () => {
    const leaf = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.double(),
      fc.bigInt(),
      fc.boolean(),
      fc.constantFrom(undefined, null, -0, '\u0000', '\ud800', '$holdfast'),
      // An invalid date is equal to no other for some versions of Node, so it has a test of its own.
      fc.date({ noInvalidDate: true }),
      fc.uint8Array(),
    )
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { weight: 4, arbitrary: leaf },
        { weight: 1, arbitrary: fc.array(tie('value'), { maxLength: 4 }) },
        {
          weight: 1,
          arbitrary: fc.dictionary(
            fc.oneof(fc.string(), fc.constantFrom('$holdfast', '__proto__', 'constructor')),
            tie('value').map((item) => (item === undefined ? null : item)),
            { maxKeys: 4, noNullPrototype: true },
          ),
        },
        { weight: 1, arbitrary: fc.array(tie('value'), { maxLength: 3 }).map((items) => new Set(items)) },
        {
          weight: 1,
          arbitrary: fc
            .array(fc.tuple(tie('value'), tie('value')), { maxLength: 3 })
            .map((items) => new Map(items)),
        },
      ),
    }))
    fc.assert(
      fc.property(value, (given) => {
        const text = encodeValue(given)
        expect(isStorable(text)).toBe(true)
        assert.deepStrictEqual(decodeValue(text), given)
      }),
      { numRuns: 1_000 },
    )
  })

  it('can be stored where they are well-formed and have no control characters', () => {
    for (const text of ['', ' ', 'x', '\u007f\u0085\u2028\ufeff\uffff\u{10ffff}'])
      expect(isStorable(text)).toBe(true)
    for (const text of ['\u0000', 'a\n', '\u001f', '\ud800', 'a\udc00b', undefined, 5, null]) {
      expect(isStorable(text)).toBe(false)
    }
  })

  it('of plain JSON is plain JSON', () => {
    const value = { a: [1, 'x', null, true], b: { c: 0.5 } }
    expect(encodeValue(value)).toBe(JSON.stringify(value))
  })

  it('that looks like a marked one comes back as it was', () => {
    for (const value of [
      { $holdfast: ['date', 0] },
      { $holdfast: 1, x: 2 },
      { $holdfast: { $holdfast: [] } },
    ]) {
      expect(decodeValue(encodeValue(value))).toStrictEqual(value)
    }
  })

  it('keeps fields of instances, and what they say of themselves', () => {
    class Order {
      readonly id = 1
    }
    expect(decodeValue(encodeValue(new Order()))).toEqual({ id: 1 })
    expect(decodeValue(encodeValue({ toJSON: () => ({ id: 2 }) }))).toEqual({ id: 2 })
  })

  it('does not make a prototype of a field', () => {
    const read = decodeValue('{"__proto__":{"admin":true}}') as { admin?: boolean }
    expect(read.admin).toBeUndefined()
    expect(Object.keys(read)).toEqual(['__proto__'])
  })

  it.each([[() => 1], [Symbol('x')], [{ deep: [() => 1] }]])('refuses %o', (value) => {
    expect(() => encodeValue(value)).toThrow(UnsupportedError)
  })

  it('refuses a value that contains itself, and takes one that occurs twice', () => {
    const round: unknown[] = []
    round.push(round)
    expect(() => encodeValue(round)).toThrow(UnsupportedError)
    const shared = { x: 1 }
    expect(decodeValue(encodeValue([shared, shared]))).toEqual([shared, shared])
  })

  it.each(['', '{', 'SECRET', '{"$holdfast":["what"]}', '{"$holdfast":[]}'])(
    'refuses the text %o, and does not show it',
    (text) => {
      try {
        decodeValue(text)
        expect.unreachable()
      } catch (error) {
        expect(error).toBeInstanceOf(UnsupportedError)
        expect(String(error)).not.toContain('SECRET')
        expect((error as Error).cause).toBeUndefined()
      }
    },
  )

  it.each(['{"$holdfast":["bigint","x"]}', '{"$holdfast":["map",5]}', '{"$holdfast":["set",null]}'])(
    'refuses the broken mark %o as what cannot be read',
    (text) => {
      expect(() => decodeValue(text)).toThrow(UnsupportedError)
    },
  )
})

describe('28. encryption', () => {
  const keys = { k1: randomBytes(32), k2: randomBytes(32) }
  const codec = encryptedCodec({ keys, current: 'k1' })

  it('gives the value back, never the same text twice, and nothing to read', async () => {
    const value = { card: '4111 1111', when: new Date(5) }
    const texts = await Promise.all(Array.from({ length: 50 }, async () => await codec.encode(value, ID)))
    expect(new Set(texts).size).toBe(50)
    for (const text of texts) {
      expect(text).toMatch(/^e1\.k1\.[A-Za-z0-9_-]+$/)
      expect(Buffer.from(text.split('.')[2] ?? '', 'base64url').toString('latin1')).not.toContain('4111')
      expect(await codec.decode(text, ID)).toEqual(value)
    }
  })

  it('refuses every change of one bit', async () => {
    const text = await codec.encode('x', ID)
    const bytes = Buffer.from(text.split('.')[2] ?? '', 'base64url')
    for (let bit = 0; bit < 8 * bytes.length; bit += 1) {
      const changed = Buffer.from(bytes)
      changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
      const moved = `e1.k1.${changed.toString('base64url')}`
      await expect(async () => await codec.decode(moved, ID)).rejects.toThrow(UnsupportedError)
    }
  })

  it('refuses what belongs to another record, another key, or has no tag', async () => {
    const text = await codec.encode('x', ID)
    const both = encryptedCodec({ keys: { ...keys, k3: keys.k1 }, current: 'k2' })
    const wrong = [
      [text, 'b'.repeat(64)],
      [text.replace('k1', 'k2'), ID],
      // The same bytes under another name are another key.
      [text.replace('k1', 'k3'), ID],
      [text.replace('e1', 'e2'), ID],
      [text.replace('k1', 'nobody'), ID],
      [text.replace('k1', '__proto__'), ID],
      [`${text}.x`, ID],
      [text.slice(0, -3), ID],
      ['e1.k1.', ID],
      ['e1', ID],
      ['', ID],
    ] as const
    for (const [changed, id] of wrong) {
      await expect(async () => await both.decode(changed, id)).rejects.toThrow(UnsupportedError)
    }
    expect(await both.decode(text, ID)).toBe('x')
  })

  it('reads with old keys and writes with the current one', async () => {
    const old = await codec.encode('old', ID)
    const rotated = encryptedCodec({ keys, current: 'k2' })
    expect(await rotated.decode(old, ID)).toBe('old')
    expect(await rotated.encode('new', ID)).toMatch(/^e1\.k2\./)
    const without = encryptedCodec({ keys: { k2: keys.k2 }, current: 'k2' })
    await expect(async () => await without.decode(old, ID)).rejects.toThrow(UnsupportedError)
  })

  it('encrypts what another codec has made of the value', async () => {
    const inner = {
      encode: (value: unknown) => `<${String(value)}>`,
      decode: (text: string) => text.slice(1, -1),
    }
    const outer = encryptedCodec({ keys, current: 'k1', codec: inner })
    expect(await outer.decode(await outer.encode('x', ID), ID)).toBe('x')
    await expect(async () => await codec.decode(await outer.encode('x', ID), ID)).rejects.toThrow(
      UnsupportedError,
    )
    expect(jsonCodec.decode(await jsonCodec.encode('x', ID), ID)).toBe('x')
  })

  it.each([
    [{ keys: {}, current: 'k1' }],
    [{ keys: { k1: randomBytes(31) }, current: 'k1' }],
    [{ keys: { k1: 'x'.repeat(32) }, current: 'k1' }],
    [{ keys: { 'a.b': randomBytes(32) }, current: 'a.b' }],
    [{ keys, current: 'k9' }],
    [{ keys, current: 'toString' }],
    [{ keys, current: 'k1', more: 1 }],
  ])('refuses options that cannot work, and does not show a key', (options) => {
    expect(() => encryptedCodec(options as never)).toThrow(InvalidInputError)
  })
})
