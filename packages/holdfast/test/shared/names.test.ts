import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkBase, nameOf, partOf, shortPartOf } from '../../src/backends/shared/names.js'
import { InvalidInputError } from '../../src/core/errors.js'

const ODD = [
  'a/b',
  'a%2Fb',
  'a%2fb',
  '..',
  '.',
  '...',
  'a b',
  'a\r\nb',
  '%',
  '%2E',
  'é',
  '日本',
  '%~',
  'a/../b',
  '.lock',
]

describe('names as parts of a path', () => {
  it.each(['orders', 'order-42', 'a.b_c', '.lock', '...', 'UPPER'])('leaves %o as it is', (name) => {
    expect(partOf(name)).toBe(name)
  })

  it.each([
    ['a/b', 'a%2Fb'],
    ['..', '%2E%2E'],
    ['.', '%2E'],
    ['a b', 'a%20b'],
    ['a%2Fb', 'a%252Fb'],
    ['a\r\nb', 'a%0D%0Ab'],
    ['é', '%C3%A9'],
  ])('encodes %o as %o', (name, part) => {
    expect(partOf(name)).toBe(part)
  })

  it('never gives one part to two names, and nothing that leaves its place', () => {
    const names = fc.oneof(
      fc.constantFrom(...ODD),
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }),
    )
    fc.assert(
      fc.property(names, names, (a, b) => {
        expect(partOf(a) === partOf(b)).toBe(a === b)
        expect(shortPartOf(a, 8) === shortPartOf(b, 8)).toBe(a === b)
        expect(partOf(a)).toMatch(/^(?!\.\.?$)[A-Za-z0-9._%-]+$/)
        expect(nameOf(partOf(a))).toBe(a)
      }),
      { numRuns: 5_000 },
    )
  })

  it.each(['a%2fb', 'a b', '%2', '%41', 'a/b', '%FF', '..'])(
    'does not read %o, which it never gives',
    (part) => {
      expect(nameOf(part)).toBeNull()
    },
  )
})

describe('base paths', () => {
  it.each([
    ['', []],
    ['/', []],
    ['locks', ['locks']],
    ['/apps/locks/', ['apps', 'locks']],
  ])('takes %o', (base, parts) => {
    expect(checkBase(base, 'base')).toEqual(parts)
  })

  it.each(['a//b', '/..', 'a/./b', '///', 'a\nb', 7, null])('refuses %o', (base) => {
    expect(() => checkBase(base, 'base')).toThrow(InvalidInputError)
  })
})
