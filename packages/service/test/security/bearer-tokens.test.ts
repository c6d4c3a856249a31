// @module-tag secrets
import { describe, expect, test } from 'vitest'
import { checkAuth } from '../../src/security/auth-entries.js'
import { BearerTokens, digestOfToken, mintToken } from '../../src/security/bearer-tokens.js'

/** T5 and T9: tokens that cannot be guessed, and whoever was let in by one does not outlive what it allows. */

const SECRET = 'hft_SECRETsecretSECRETsecretSECRETsecretSECRETs'
const right = { prefix: 'jobs/', can: ['acquire', 'inspect'] }
const entry = { name: 'ci', sha256: digestOfToken(SECRET), rights: [right] }

describe('bearer tokens', () => {
  test('have 256 random bits, and only a digest of them is kept', () => {
    const minted = new Set(Array.from({ length: 100 }, mintToken))
    expect(minted.size).toBe(100)
    for (const token of minted) {
      expect(token).toMatch(/^hft_[A-Za-z0-9_-]{43}$/)
      expect(Buffer.from(token.slice(4), 'base64url')).toHaveLength(32)
    }
  })

  test('are told apart, and rights hold for a prefix and nothing else', () => {
    const tokens = new BearerTokens(checkAuth({ tokens: [entry, other('ops', '', ['inspect', 'break'])] }))
    const ci = tokens.identify(SECRET)
    expect(ci?.name).toBe('ci')
    expect(ci?.may('acquire', 'jobs/1')).toBe(true)
    expect(ci?.may('acquire', 'jobs')).toBe(false)
    expect(ci?.may('acquire', 'Jobs/1')).toBe(false)
    expect(ci?.may('break', 'jobs/1')).toBe(false)
    expect(ci?.mayAny('inspect')).toBe(true)
    expect(ci?.mayAny('break')).toBe(false)
    expect(tokens.identify(tokenOf('ops'))?.may('break', 'anything')).toBe(true)
    expect(tokens.identify(tokenOf('ops'))?.may('acquire', 'anything')).toBe(false)
  })

  test('that are nearly right, empty, or the digest itself are nobody', () => {
    const tokens = new BearerTokens(checkAuth({ tokens: [entry] }))
    for (const wrong of ['', 'hft_', SECRET.slice(0, -1), `${SECRET}x`, SECRET.toUpperCase(), entry.sha256]) {
      expect(tokens.identify(wrong)).toBeNull()
    }
  })

  test('end at their time, also for whoever is inside', () => {
    let now = Date.parse('2027-01-01T00:00:00Z')
    const tokens = new BearerTokens(
      checkAuth({ tokens: [{ ...entry, expires: '2027-01-02T00:00:00Z' }] }),
      () => now,
    )
    const ci = tokens.identify(SECRET)
    expect(ci?.isValid()).toBe(true)
    now += 24 * 60 * 60 * 1_000
    expect(ci?.isValid()).toBe(false)
    expect(tokens.identify(SECRET)).toBeNull()
  })
})

describe('whoever was let in', () => {
  const wide = { ...entry, rights: [{ prefix: '', can: ['acquire', 'inspect'] }] }

  test('stays valid for as long as the entry says the same, whatever the others say', () => {
    const tokens = new BearerTokens(checkAuth({ tokens: [entry] }))
    const ci = tokens.identify(SECRET)
    tokens.replace(checkAuth({ tokens: [other('ops', '', ['break']), structuredClone(entry)] }))
    expect(ci?.isValid()).toBe(true)
    expect(tokens.identify(SECRET)).toBe(ci)
    expect(tokens.count).toBe(2)
  })

  const others: [string, object[], boolean][] = [
    ['was revoked', [], false],
    ['ran out', [{ ...wide, expires: '2001-01-01T00:00:00Z' }], false],
    ['may do less', [entry], true],
    [
      'may do less than was asked for',
      [{ ...entry, rights: [{ prefix: 'else/', can: ['acquire'] }] }],
      false,
    ],
    ['may do more', [{ ...wide, rights: [...wide.rights, { prefix: '', can: ['break'] }] }], true],
    ['has another name', [{ ...wide, name: 'ci-2' }], true],
  ]
  test.each(others)(
    'is not valid once the token %s, and may go on by what it says now',
    (_what, now, may) => {
      const tokens = new BearerTokens(checkAuth({ tokens: [wide] }))
      const ci = tokens.identify(SECRET)
      expect([ci?.isValid(), ci?.stillMay('acquire', 'jobs/1')]).toEqual([true, true])
      tokens.replace(checkAuth({ tokens: now }))
      expect([ci?.isValid(), ci?.stillMay('acquire', 'jobs/1')]).toEqual([false, may])
      expect(ci?.stillMay('inspect', 'theirs')).toBe(
        tokens.identify(SECRET)?.may('inspect', 'theirs') ?? false,
      )
    },
  )
})

function tokenOf(name: string): string {
  return `hft_${name.padEnd(43, 'x')}`
}

function other(name: string, prefix: string, can: string[]): unknown {
  return { name, sha256: digestOfToken(tokenOf(name)), rights: [{ prefix, can }] }
}
