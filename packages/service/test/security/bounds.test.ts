// @module-tag secrets
// @module-tag limits
import { describe, expect, test } from 'vitest'
import { parseBody } from '../../src/security/json-body.js'
import { LIMITS, limitsOf } from '../../src/security/limits.js'
import { checkListen } from '../../src/security/listen-rule.js'
import { ListLimits } from '../../src/security/lists.js'
import { auditBreak, type LogLine, notice, safeText } from '../../src/security/log-line.js'
import { ANYBODY, recordName } from '../../src/security/principal.js'
import { networkOf, Rates } from '../../src/security/rates.js'
import { TooManyError } from '../../src/security/refused.js'
import { WaiterLimits, type Waiting } from '../../src/security/waiters.js'

/** T9, T12, T13, T14: what is bounded, on its own; `hostile-*.test.ts` show the same on the running service. */

describe('where it listens', () => {
  const nothing = { auth: false, tls: false, insecure: false }

  test.each(['127.0.0.1', '127.8.0.1', '::1', '[::1]', 'localhost', '::ffff:127.0.0.1'])(
    '%s needs nothing',
    (host) => {
      expect(() => checkListen({ host, ...nothing })).not.toThrow()
    },
  )

  // A name is no proof of where it leads, and an address that only looks like one of this machine is none.
  const open = [
    '0.0.0.0',
    '::',
    '',
    '192.168.1.5',
    'locks.example',
    'localhost.example',
    '127.0.0.1.example',
    '127.1',
  ]
  test.each(open)('%j needs authentication and TLS, and says so', (host) => {
    expect(() => checkListen({ host, ...nothing })).toThrow(/give `auth` .*--auth.* and `tls` .*--tls-cert/)
    expect(() => checkListen({ host, ...nothing, auth: true })).toThrow(
      /give `tls` .*, or listen on 127\.0\.0\.1/,
    )
    expect(() => checkListen({ host, ...nothing, tls: true })).toThrow(
      /give `auth` \(--auth FILE[^)]*\), or listen/,
    )
    expect(() => checkListen({ host, auth: true, tls: true, insecure: false })).not.toThrow()
    expect(() => checkListen({ host, ...nothing, insecure: true })).not.toThrow()
  })
})

describe('waiters', () => {
  let ids = 0
  const enter = (limits: WaiterLimits, resource: string, name: string): Waiting => {
    ids += 1
    return limits.enter({ id: String(ids), resource }, { name })
  }

  test('are counted for all, for a name and for a principal, and leave once', () => {
    const limits = new WaiterLimits({ waitersMax: 4, waitersPerNameMax: 2, waitersPerPrincipalMax: 3 })
    const first = enter(limits, 'a', 'x')
    enter(limits, 'a', 'x')
    expect(() => enter(limits, 'a', 'y')).toThrow(/wait for this name/)
    enter(limits, 'b', 'x')
    expect(() => enter(limits, 'c', 'x')).toThrow(/with this token/)
    enter(limits, 'c', 'y')
    expect(() => enter(limits, 'd', 'z')).toThrow(/at this service/)
    expect(() => enter(limits, 'd', 'z')).toThrow(TooManyError)
    first.leave()
    first.leave()
    expect(limits.count).toBe(3)
    enter(limits, 'a', 'y')
    expect(() => enter(limits, 'e', 'z')).toThrow(TooManyError)
  })
})

describe('places that are kept', () => {
  const [one, two] = [
    { id: 'one', resource: 'a' },
    { id: 'two', resource: 'a' },
  ]
  const three = { id: 'three', resource: 'b' }
  const [x, y] = [{ name: 'x' }, { name: 'y' }]
  const limits = (): WaiterLimits =>
    new WaiterLimits({ waitersMax: 2, waitersPerNameMax: 2, waitersPerPrincipalMax: 2 })

  test('count, but once for each claim, and not after they were given up', () => {
    const waiters = limits()
    for (let round = 0; round < 5; round += 1) waiters.enter(one, x).keep(60_000)
    waiters.enter(two, x).keep(60_000)
    expect(waiters.count).toBe(2)
    expect(() => waiters.enter(three, y)).toThrow(TooManyError)
    waiters.forget(one)
    waiters.forget(one)
    expect(waiters.count).toBe(1)
    waiters.enter(three, y)
  })

  test('end by themselves', async () => {
    const waiters = limits()
    waiters.enter(one, x).keep(1)
    await expect.poll(() => waiters.count, { timeout: 60_000 }).toBe(0)
  })

  test('count on when a request that comes back to them fails, for the rest of their time', async () => {
    const waiters = limits()
    waiters.enter(one, x).keep(60_000)
    const back = waiters.enter(one, x)
    back.fail()
    back.leave()
    expect([waiters.count, waiters.isKept(one)]).toEqual([1, true])
    waiters.forget(one)
    waiters.enter(one, x).fail()
    expect(waiters.count).toBe(0)
    waiters.enter(two, x).keep(1_000)
    waiters.enter(two, x).fail()
    await expect.poll(() => waiters.count, { timeout: 60_000 }).toBe(0)
  })

  test('count on when another token that knows the claim may not wait', () => {
    const waiters = new WaiterLimits({ waitersMax: 9, waitersPerNameMax: 9, waitersPerPrincipalMax: 1 })
    waiters.enter(one, x).keep(60_000)
    waiters.enter(three, y)
    expect(() => waiters.enter(one, y)).toThrow(TooManyError)
    expect([waiters.count, waiters.isKept(one)]).toEqual([2, true])
  })
})

describe('rates', () => {
  test('let a burst pass, then one in its time, and each caller for itself', () => {
    let now = 0
    const rates = new Rates(10, () => now)
    const passed = (caller: string): boolean => {
      try {
        rates.take(caller)
        return true
      } catch (error) {
        expect(error).toBeInstanceOf(TooManyError)
        return false
      }
    }
    const burst = Array.from({ length: 50 }, () => passed('a')).filter(Boolean).length
    expect(burst).toBe(20)
    expect(passed('b')).toBe(true)
    now += 100
    expect([passed('a'), passed('a')]).toEqual([true, false])
  })

  test('remember a bounded number of callers, whatever comes', () => {
    let now = 0
    const rates = new Rates(1_000, () => now)
    for (let index = 0; index < 30_000; index += 1) {
      now += 0.01
      rates.take(`caller ${index}`)
    }
    expect(rates.callers).toBeLessThanOrEqual(10_000)
  })

  test('count the network of an address of IPv6 as one', () => {
    expect(networkOf('2001:db8:1:2:3:4:5:6')).toBe(networkOf('2001:db8:1:2::9'))
    expect(networkOf('2001:db8::1')).toBe(networkOf('2001:db8:0:0:ffff::1'))
    expect(networkOf('2001:db8:1:3::1')).not.toBe(networkOf('2001:db8:1:2::1'))
    expect(networkOf('10.0.0.1')).not.toBe(networkOf('10.0.0.2'))
  })
})

describe('limits', () => {
  test('have defaults, and are numbers in their range', () => {
    expect(limitsOf()).toEqual(LIMITS)
    expect(limitsOf({}, true).requestsPerSecond).toBeNull()
    expect(limitsOf({ requestsPerSecond: 5 }, true).requestsPerSecond).toBe(5)
    for (const wrong of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31, '5', null, undefined]) {
      expect(() => limitsOf({ ttlMaxMs: wrong as number })).toThrow(/`ttlMaxMs` must be a whole number/)
    }
    expect(() => limitsOf({ listenersMax: Number.NaN })).toThrow(/`listenersMax` must be/)
    expect(() => limitsOf({ headersTimeoutMs: 30_000, requestTimeoutMs: 20_000 })).toThrow(/headersTimeoutMs/)
  })
})

describe('limits for one token', () => {
  test('are at most half of a lowered limit for all, unless they are given', () => {
    expect(limitsOf({ listenersMax: 20, waitersMax: 5, listsMax: 1 })).toMatchObject({
      listenersPerPrincipalMax: 10,
      waitersPerPrincipalMax: 2,
      listsPerPrincipalMax: 1,
    })
    expect(limitsOf({ listenersMax: 20, listenersPerPrincipalMax: 20 }).listenersPerPrincipalMax).toBe(20)
    expect(limitsOf({ listenersMax: 1_000 }).listenersPerPrincipalMax).toBe(LIMITS.listenersPerPrincipalMax)
  })

  test('do not hold for callers without one, who are all of them', async () => {
    const waiters = new WaiterLimits({ waitersMax: 3, waitersPerNameMax: 3, waitersPerPrincipalMax: 1 })
    const lists = new ListLimits({ listsMax: 3, listsPerPrincipalMax: 1 })
    const made = ['a', 'b', 'c'].map((id) => {
      waiters.enter({ id, resource: id }, ANYBODY)
      return lists.make(ANYBODY, async () => id)
    })
    expect(await Promise.all(made)).toEqual(['a', 'b', 'c'])
    expect(() => waiters.enter({ id: 'd', resource: 'd' }, ANYBODY)).toThrow(/at this service/)
  })
})

describe('bodies', () => {
  const read = (text: string): unknown => parseBody(Buffer.from(text))

  test('are JSON; none is an empty object', () => {
    expect(read('')).toEqual({})
    expect(read('{"a":[1,"x"]}')).toEqual({ a: [1, 'x'] })
    expect(read('{"constructor":"acme","note":"\\u0041"}')).toEqual({ constructor: 'acme', note: 'A' })
    expect(read(`${'['.repeat(64)}${']'.repeat(64)}`)).toBeInstanceOf(Array)
    expect(read(`{"text":${JSON.stringify('[{"\\'.repeat(500))}}`)).toMatchObject({
      text: expect.any(String),
    })
  })

  const refused: [string, Buffer][] = [
    ['a depth', Buffer.from('['.repeat(65) + ']'.repeat(65))],
    ['a depth without end', Buffer.from('[{"a":'.repeat(40_000))],
    ['a prototype', Buffer.from('{"__proto__":{"admin":true}}')],
    ['a prototype in disguise', Buffer.from('{"\\u005f_proto__":{"admin":true}}')],
    ['a prototype inside', Buffer.from('{"a":[{"__proto__":1}]}')],
    ['a constructor', Buffer.from('{"constructor":{"prototype":{"admin":true}}}')],
    ['bytes that are no UTF-8', Buffer.from([0x22, 0xff, 0xfe, 0x22])],
    ['an overlong slash', Buffer.from([0x22, 0xc0, 0xaf, 0x22])],
    ['a surrogate as bytes', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
    ['no number', Buffer.from('{"ttlMs":NaN}')],
    ['two values', Buffer.from('{}{}')],
    ['a mark of byte order', Buffer.from('\u{feff}{}')],
    ['a half', Buffer.from('{"claim":"hf1.secret')],
  ]
  test.each(refused)('with %s are refused, and not repeated', (_what, body) => {
    expect(() => parseBody(body)).toThrow(/^The body [^"]*$/)
    expect(() => parseBody(body)).not.toThrow(/secret/)
  })
})

test('names of records cannot pass for those of another tenant', () => {
  expect(recordName({ tenant: 'a/b', operation: 'c' })).not.toBe(
    recordName({ tenant: 'a', operation: 'b/c' }),
  )
  expect(recordName({ tenant: 'a/b', operation: 'c' }).startsWith('records/a/')).toBe(false)
  expect(recordName({ tenant: '..', operation: '\u{d800}' })).toMatch(/^records\/\.\.\//)
})

test('a notice repeats no password of a store', () => {
  const lines: unknown[] = []
  notice(
    (line) => lines.push(line),
    'error',
    'redis://user:p@ss:word@db:1/?password=secret&x=1 is gone\nforged',
  )
  expect(lines).toMatchObject([{ text: 'redis://***@db:1/?password=***&x=1 is gone\\u{a}forged' }])
})

test('the audit line of a break shows the first claims, and how many there are', () => {
  const lines: LogLine[] = []
  const refs = Array.from({ length: 10_000 }, (_, index) => `ref-${index}`)
  const done = { principal: 'ops', address: '::1', name: 'a', reason: 'why', refs }
  auditBreak((line) => lines.push(line), done)
  expect(lines).toMatchObject([{ kind: 'break', refs: refs.slice(0, 100), refsTotal: 10_000 }])
  expect(JSON.stringify(lines).length).toBeLessThan(16 * 1_024)
})

test('text for a log stays on its line and draws nothing else', () => {
  expect(safeText('a\r\nb\u{1b}[31m\u{202e}c')).toBe('a\\u{d}\\u{a}b\\u{1b}[31m\\u{202e}c')
  expect(safeText('x'.repeat(1_000))).toHaveLength(121)
})
