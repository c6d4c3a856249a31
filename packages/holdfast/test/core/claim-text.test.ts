import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readClaim, writeClaim } from '../../src/core/claim-text.js'
import { InvalidInputError } from '../../src/core/errors.js'
import { claimOf } from '../support/claims.js'

const ID = 'A1b2C3d4E5f6-7890_abcdef'

describe('a claim as text', () => {
  it('says what it said, with its place and without', () => {
    const shapes = [
      { shape: { kind: 'mutex', limit: 1 }, weight: 1 },
      { shape: { kind: 'semaphore', limit: 7 }, weight: 3 },
      { shape: { kind: 'read-write', limit: 2 ** 31 - 1 }, weight: 2 ** 31 - 1 },
    ] as const
    for (const each of shapes) {
      for (const fence of [undefined, null, 0n, 5n, 2n ** 60n]) {
        const claim = claimOf('r', { id: ID, ttlMs: 50, ...each })
        const read = readClaim(writeClaim(claim, fence), 'r')
        expect(read.fence).toBe(fence)
        expect(read.claim).toMatchObject({ id: ID, resource: 'r', ttlMs: 50, ...each })
      }
    }
  })

  it.each([
    '',
    'hf1',
    `hf2.m.1.1.1000.${ID}`,
    `hf1.x.1.1.1000.${ID}`,
    `hf1.m.2.1.1000.${ID}`,
    `hf1.s.2.3.1000.${ID}`,
    `hf1.s.2.0.1000.${ID}`,
    `hf1.m.1.1.0.${ID}`,
    `hf1.m.1.1.1e3.${ID}`,
    `hf1.m.1.1.99999999999.${ID}`,
    'hf1.m.1.1.1000.short',
    `hf1.m.1.1.1000.${'x'.repeat(65)}`,
    `hf1.m.1.1.1000.${ID}.-1`,
    `hf1.m.1.1.1000.${ID}.01`,
    `hf1.m.1.1.1000.${ID}.9223372036854775808`,
    `hf1.m.1.1.1000.${ID}.1.2`,
    `hf1.m.1.1.1000.${ID} `,
  ])('refuses %j', (text) => {
    expect(() => readClaim(text, 'r')).toThrow(InvalidInputError)
  })

  it('refuses whatever else comes, and repeats nothing of it', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        try {
          readClaim(value, 'r')
        } catch (error) {
          expect(error).toBeInstanceOf(InvalidInputError)
          expect((error as Error).message).toContain('something else')
        }
      }),
    )
    const secret = `hf1.m.1.1.1000.${ID}.x`
    expect(() => readClaim(secret, 'r')).toThrow(/^(?!.*A1b2C3)/)
  })
})
