/** Values that no option and no name may have. Each arbitrary draws only from outside the range it is named for. */

import fc from 'fast-check'

const HUGE = 'x'.repeat(10 * 1024 * 1024)
const TIMER_MAX_MS = 2 ** 31 - 1

/** Of every type that is neither a number, a text nor undefined, which stands for "left out". */
export const strange = fc.oneof(
  fc.constantFrom<unknown>(null, true, false, {}, [], [10], { valueOf: () => 10 }, { toString: () => 'x' }),
  fc.constantFrom<unknown>(
    Symbol('s'),
    Symbol.iterator,
    () => 10,
    class Ten {},
    10n,
    -1n,
    2n ** 70n,
    -(10n ** 900n),
  ),
  fc.constantFrom<unknown>(
    new Date(10),
    new Map(),
    /x/,
    new Error('x'),
    new Uint8Array(3),
    Promise.resolve(10),
  ),
  fc.constantFrom<unknown>(
    Object.create(null),
    new Proxy({}, {}),
    new Number(10),
    new String('x'),
    globalThis,
  ),
  fc.bigInt(),
  fc.array(fc.integer(), { maxLength: 3 }),
  fc.dictionary(fc.string({ maxLength: 5 }), fc.integer(), { maxKeys: 3 }),
)

/** A text, printable or not: wrong wherever something else than a text is wanted. */
const anyText = fc.oneof(
  fc.constantFrom('', '10', ' 10 ', '1e3', 'true', 'null', '\u0085\u009b31m', HUGE),
  fc.string({ unit: 'binary', maxLength: 60 }),
)

const badNumber = (min: number, max: number): fc.Arbitrary<number> =>
  fc.oneof(
    fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -1, 1.5, min + 0.5),
    fc.constantFrom(min - 1, max + 1, 2 ** 31, 2 ** 53, Number.MAX_VALUE, Number.MIN_VALUE, -(2 ** 53)),
    fc.double({ noInteger: true }),
    fc.integer({ max: min - 1 }),
    fc.maxSafeInteger().filter((value) => value > max),
  )

/** Not a whole number from `min` to `max`. */
export function notInteger(min: number, max: number): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 3, arbitrary: badNumber(min, max) }, strange, anyText)
}

/** Not a duration that a timer can take. */
export function notMs(min: number): fc.Arbitrary<unknown> {
  return notInteger(min, TIMER_MAX_MS)
}

export const notBoolean = fc.oneof(
  strange.filter((value) => typeof value !== 'boolean'),
  anyText,
  fc.constantFrom(0, 1, Number.NaN),
)

export const notFunction = fc.oneof(
  strange.filter((value) => typeof value !== 'function'),
  anyText,
  fc.constantFrom(undefined, 0, 1),
)

export const notSignal = fc.oneof(
  strange,
  anyText,
  fc.constantFrom<unknown>(0, new AbortController(), new EventTarget(), { aborted: false, reason: 1 }),
  fc.constantFrom<unknown>({ aborted: true, throwIfAborted: () => {}, addEventListener: () => {} }),
)

const control = fc
  .oneof(fc.integer({ min: 0, max: 0x1f }), fc.integer({ min: 0x7f, max: 0x9f }))
  .map((code) => String.fromCharCode(code))

const loneSurrogate = fc.integer({ min: 0xd800, max: 0xdfff }).map((code) => String.fromCharCode(code))

const plain = fc.string({ unit: 'grapheme-ascii', maxLength: 50 })

/** Text with something in it that breaks a protocol, a log or an encoding. */
const poisoned = fc
  .tuple(plain, fc.oneof(control, loneSurrogate, fc.constantFrom('\0', '\r\n', '\u009b31m', '\u0085')), plain)
  .map((parts) => parts.join(''))

const tooLong = (bytesMax: number): fc.Arbitrary<string> =>
  fc.oneof(
    fc.constant(HUGE),
    fc.integer({ min: bytesMax + 1, max: bytesMax + 200 }).map((length) => 'n'.repeat(length)),
    // Few enough characters, but too many bytes.
    fc.integer({ min: Math.ceil((bytesMax + 1) / 3), max: bytesMax }).map((length) => '€'.repeat(length)),
    fc.integer({ min: bytesMax / 4 + 1, max: bytesMax / 2 }).map((length) => '🔒'.repeat(length)),
  )

/** Not a text of at most so many bytes without control characters and lone surrogates. */
export function notText(bytesMax: number): fc.Arbitrary<unknown> {
  return fc.oneof(strange, fc.constantFrom(0, 10, Number.NaN), poisoned, tooLong(bytesMax))
}

/** Not a name: like a text, but not empty either. */
export const notName = fc.oneof(
  { weight: 1, arbitrary: fc.constant('') },
  { weight: 12, arbitrary: notText(512) },
)

/** What stands where an object of options belongs. */
const notOptionsObject = fc.oneof(
  fc.constantFrom<unknown>(null, true, false, 0, 10, Number.NaN, [], [10], 10n, Symbol('s'), () => 10),
  fc.constantFrom<unknown>(
    new Date(10),
    new Map(),
    /x/,
    new Error('x'),
    Promise.resolve({}),
    new String('x'),
  ),
  anyText,
)

const unknownKey = fc.oneof(
  fc.constantFrom(
    'ttl',
    'timeout',
    'TTLMS',
    'ttlms',
    'ttlMs ',
    'wait',
    'waitms',
    'abortSignal',
    'lease',
    'auto',
  ),
  fc.constantFrom(
    '__proto__',
    'constructor',
    'prototype',
    'toString',
    'hasOwnProperty',
    '0',
    '',
    '\0',
    '\r\n',
  ),
  fc.constantFrom('\u0085\u009b31m', '\ud800', HUGE),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 80 }),
)

const strayKey = fc.oneof(
  unknownKey,
  fc.constantFrom(Symbol('ttlMs'), Symbol.toStringTag, Symbol.for('\u009b31m')),
)

/** An object with one key too many. The key is its own, also where it is `__proto__`. */
const withStrayKey = (known: readonly string[], needed: object): fc.Arbitrary<unknown> =>
  fc
    .tuple(
      strayKey.filter((key) => typeof key !== 'string' || !known.includes(key)),
      fc.constantFrom<unknown>(1_000, undefined, null, 'x', { ttlMs: 10 }),
    )
    .map(([key, value]) =>
      Object.defineProperty({ ...needed }, key, {
        value,
        enumerable: true,
        writable: true,
        configurable: true,
      }),
    )

/** Not an object with only the known keys. `needed` holds those without which the object would be wrong anyway. */
export function notOptions(known: readonly string[], needed: object = {}): fc.Arbitrary<unknown> {
  return fc.oneof(notOptionsObject, { weight: 2, arbitrary: withStrayKey(known, needed) })
}
