// @module-tag effects
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidInputError } from '../../src/core/errors.js'
import { durationMs } from '../../src/idempotency/durations.js'
import {
  checkTarget,
  childKeyOf,
  digestOfParts,
  recordKeyOf,
  refOfRecord,
} from '../../src/idempotency/keys.js'

const scope = { tenant: 't', operation: 'o' }

describe('keys of records', () => {
  it('are digests of parts with their lengths, and stay what they are from release to release', () => {
    const text = '15:holdfast record7:default1:t1:o5:größe'.replace('5:größe', '7:größe')
    const expected = createHash('sha256').update(text).digest('hex')
    expect(recordKeyOf('default', { scope, key: 'größe' })).toBe(expected)
    expect(expected).toMatch(/^[0-9a-f]{64}$/)
  })

  it('differ whenever a part does, wherever the parts begin and end', () => {
    const part = fc.oneof(
      fc.constantFrom('a', 'b', '1:a', 'a::b', ':', '::', 'a1:b'),
      fc.string({ minLength: 1 }),
    )
    const parts = fc.tuple(part, part, part, part)
    const keyOf = ([namespace, tenant, operation, key]: readonly [string, string, string, string]): string =>
      recordKeyOf(namespace, { scope: { tenant, operation }, key })
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        expect(keyOf(one) === keyOf(other)).toBe(one.every((text, index) => text === other[index]))
      }),
      { numRuns: 2_000 },
    )
  })

  it('have children of their own, one for each name', () => {
    const key = recordKeyOf('default', { scope, key: 'k' })
    expect(childKeyOf(key, 'charge')).toBe(childKeyOf(key, 'charge'))
    const all = [
      key,
      childKeyOf(key, 'charge'),
      childKeyOf(key, 'ship'),
      childKeyOf('f'.repeat(64), 'charge'),
    ]
    expect(new Set(all).size).toBe(4)
    expect(() => childKeyOf(key, '')).toThrow(InvalidInputError)
  })

  it('of different kinds differ, and bytes count as the text they are', () => {
    expect(digestOfParts('record', ['x'])).not.toBe(digestOfParts('token', ['x']))
    expect(digestOfParts('record', ['é'])).toBe(digestOfParts('record', [Buffer.from('é')]))
    expect(recordKeyOf('n', { scope, key: 'k' })).toBe(digestOfParts('record', ['n', 't', 'o', 'k']))
  })

  it('are called by their operation and the begin of the digest', () => {
    expect(refOfRecord('order.create', 'abcdef0123456789')).toBe('order.create#abcdef012345')
  })

  it.each([
    ['', undefined],
    ['x'.repeat(256), undefined],
    ['SECRET\ud800', undefined],
    [5, undefined],
    [undefined, undefined],
    ['k', { tenant: '', operation: 'o' }],
    ['k', { tenant: 't' }],
    ['k', { tenant: 't', operation: 'o', more: 1 }],
    ['k', null],
  ])('refuses the key %o in the scope %o, and does not show the key', (key, other) => {
    const target = { key, scope: other === undefined ? scope : other }
    try {
      checkTarget(target as never)
      expect.unreachable()
    } catch (error) {
      expect(error).toBeInstanceOf(InvalidInputError)
      expect(String(error)).not.toContain('SECRET')
    }
  })

  it('takes every well-formed key of up to 255 characters', () => {
    for (const key of ['x', 'x'.repeat(255), ' ', '\n', 'نص', '🇩🇪']) checkTarget({ scope, key })
  })
})

describe('durations', () => {
  it.each([
    [1, 1],
    ['1ms', 1],
    ['30s', 30_000],
    ['1.5s', 1_500],
    ['15m', 900_000],
    ['24h', 86_400_000],
    ['30d', 2_592_000_000],
    ['36500d', 3_153_600_000_000],
  ] as const)('takes %o for %d ms', (value, ms) => {
    expect(durationMs(value, 'x', 1)).toBe(ms)
  })

  it.each([
    0,
    -1,
    1.5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    2 ** 53,
    '',
    '5',
    's',
    '0s',
    '-1s',
    '1.0005s',
    '1e3s',
    '1 s',
    '1S',
    '1w',
    '1s ',
    `${'9'.repeat(30)}d`,
    null,
    undefined,
    {},
    [5],
    5n,
    true,
  ])('refuses %o', (value) => {
    expect(() => durationMs(value as never, 'x', 1)).toThrow(InvalidInputError)
  })
})
