// @module-tag effects
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidInputError } from '../../src/core/errors.js'
import { canonicalJson } from '../../src/idempotency/canonical.js'
import { fingerprintOf } from '../../src/idempotency/fingerprint.js'

describe('canonical JSON', () => {
  it('gives the examples of RFC 8785', () => {
    // Section 3.2.2 and 3.2.4.
    const example = {
      numbers: [Number('333333333.33333329'), 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
      string: '\u20ac$\u000F\u000aA\'\u0042\u0022\u005c\\"/',
      literals: [null, true, false],
    }
    expect(canonicalJson(example)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],' +
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    )
    // Section 3.2.3: keys are sorted by their UTF-16 units.
    const keys = {
      '\u20ac': 'Euro Sign',
      '\r': 'Carriage Return',
      '\ufb33': 'Hebrew Letter Dalet With Dagesh',
      '1': 'One',
      '\ud83d\ude00': 'Emoji: Grinning Face',
      '\u0080': 'Control',
      '\u00f6': 'Latin Small Letter O With Diaeresis',
    }
    const text = canonicalJson(keys)
    const order = Object.values(keys).toSorted((one, other) => text.indexOf(one) - text.indexOf(other))
    expect(order).toEqual([
      'Carriage Return',
      'One',
      'Control',
      'Latin Small Letter O With Diaeresis',
      'Euro Sign',
      'Emoji: Grinning Face',
      'Hebrew Letter Dalet With Dagesh',
    ])
    expect(text).toMatch(/^\{"\\r":"Carriage Return","1":"One",/)
  })

  it.each([
    ['0000000000000000', '0'],
    ['8000000000000000', '0'],
    ['0000000000000001', '5e-324'],
    ['7fefffffffffffff', '1.7976931348623157e+308'],
    ['4340000000000000', '9007199254740992'],
    ['c340000000000000', '-9007199254740992'],
    ['4430000000000000', '295147905179352830000'],
    ['44b52d02c7e14af5', '9.999999999999997e+22'],
    ['44b52d02c7e14af6', '1e+23'],
    ['444b1ae4d6e2ef4e', '999999999999999700000'],
    ['444b1ae4d6e2ef50', '1e+21'],
    ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
    ['3eb0c6f7a0b5ed8d', '0.000001'],
    ['41b3de4355555553', '333333333.3333332'],
    ['becbf647612f3696', '-0.0000033333333333333333'],
    ['43143ff3c1cb0959', '1424953923781206.2'],
  ])('writes the number %s of appendix B as %s', (hex, text) => {
    expect(canonicalJson(Buffer.from(hex, 'hex').readDoubleBE())).toBe(text)
  })

  it('is the same for every order of keys, and something else for everything else', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (one, other) => {
        expect(canonicalJson(turned(one))).toBe(canonicalJson(one))
        expect(JSON.parse(canonicalJson(one))).toEqual(JSON.parse(JSON.stringify(one)))
        const same = JSON.stringify(sorted(one)) === JSON.stringify(sorted(other))
        expect(canonicalJson(one) === canonicalJson(other)).toBe(same)
      }),
      { numRuns: 500 },
    )
  })

  it('leaves out what is undefined, and takes what a value says of itself', () => {
    expect(canonicalJson({ a: undefined, b: 1 })).toBe('{"b":1}')
    expect(canonicalJson({ at: new Date(0), url: new URL('http://x/') })).toBe(
      '{"at":"1970-01-01T00:00:00.000Z","url":"http://x/"}',
    )
    expect(canonicalJson(Object.assign(Object.create(null), { x: [1] }))).toBe('{"x":[1]}')
  })

  it.each([
    ['a big integer', 1n],
    ['what is no number', Number.NaN],
    ['an infinity', { deep: [Number.NEGATIVE_INFINITY] }],
    ['undefined in a list', [undefined]],
    ['a function', { call: () => 1 }],
    ['a symbol', Symbol('x')],
    ['a map', new Map([[1, 2]])],
    ['a set', { deep: new Set([1]) }],
    ['half a character', '\ud800'],
    ['half a character in a key', { '\udc00': 1 }],
  ])('refuses %s, which would look like something else', (_what, value) => {
    expect(() => canonicalJson(value)).toThrow(InvalidInputError)
  })

  it('refuses a value that contains itself, and does not show what is in it', () => {
    const round: Record<string, unknown> = { secret: 'SECRET' }
    round.self = round
    expect(() => canonicalJson(round)).toThrow(InvalidInputError)
    try {
      canonicalJson({ secret: 'SECRET', bad: 1n })
    } catch (error) {
      expect(String(error)).not.toContain('SECRET')
    }
  })
})

describe('fingerprints', () => {
  it('has a version and a digest, and nothing of the input', () => {
    expect(fingerprintOf({ b: 1, a: 'x' }, 'json')).toMatch(/^v1:[0-9a-f]{64}$/)
    expect(fingerprintOf({ b: 1, a: 'x' }, 'json')).toBe(fingerprintOf({ a: 'x', b: 1 }, 'json'))
    // sha256 of {"a":1}
    expect(fingerprintOf({ a: 1 }, 'json')).toBe(
      'v1:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862',
    )
  })

  it('compares nothing where nothing is given or asked for', () => {
    expect(fingerprintOf(undefined, 'json')).toBeNull()
    expect(fingerprintOf({ a: 1 }, false)).toBeNull()
    expect(fingerprintOf(undefined, () => 'never asked')).toBeNull()
    expect(fingerprintOf(null, 'json')).not.toBeNull()
  })

  it('takes text or bytes from a function, and nothing else', () => {
    expect(fingerprintOf(1, () => 'x')).toBe(fingerprintOf(2, () => new Uint8Array([0x78])))
    expect(() => fingerprintOf(1, (() => 5) as never)).toThrow(InvalidInputError)
  })
})

/** The same value with its keys in the other order. */
function turned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(turned)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, item]) => [key, turned(item)]),
  )
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([key, item]): [string, unknown] => [key, sorted(item)])
  return { object: entries.toSorted(([one], [other]) => (one < other ? -1 : 1)) }
}
