// @module-tag effects
import { hash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { memoryRecords } from '../../src/backends/memory/records.js'
import { InvalidInputError } from '../../src/core/errors.js'
import { canonicalJson } from '../../src/idempotency/canonical.js'
import { encryptedCodec } from '../../src/idempotency/encryption.js'
import { fingerprintOf } from '../../src/idempotency/fingerprint.js'
import { FingerprintKeys } from '../../src/idempotency/fingerprint-keys.js'
import { createIdempotency, type Idempotency } from '../../src/idempotency/idempotency.js'
import { recordKeyOf } from '../../src/idempotency/keys.js'
import type { FingerprintKey, IdempotencyOptions } from '../../src/idempotency/types.js'
import { jsonCodec } from '../../src/idempotency/values.js'

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

const RECORD = 'a'.repeat(64)
const [OLD, NEW] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]

/** As the version before this one wrote it. */
const plainDigest = (input: unknown): string => `v1:${hash('sha256', canonicalJson(input), 'hex')}`

function textOf(input: unknown, rule: Parameters<typeof fingerprintOf>[1] = 'json'): string | undefined {
  return fingerprintOf(input, rule, RECORD)?.text
}

describe('fingerprints', { tags: ['secrets'] }, () => {
  it('has a version, the id of a key and a digest, and nothing of the input', () => {
    expect(textOf({ b: 1, a: 'x' })).toMatch(/^v2:0{16}[0-9a-f]{48}$/)
    expect(textOf({ b: 1, a: 'x' })).toBe(textOf({ a: 'x', b: 1 }))
    expect(textOf({ a: 1 })).toBe('v2:00000000000000009cf0d84eb2c4f0f11dc23395f0ffb9ce5295cdae1c125bcd')
  })

  it('compares nothing where nothing is given or asked for', () => {
    expect(fingerprintOf(undefined, 'json', RECORD)).toBeNull()
    expect(fingerprintOf({ a: 1 }, false, RECORD)).toBeNull()
    expect(fingerprintOf(undefined, () => 'never asked', RECORD)).toBeNull()
    expect(fingerprintOf(null, 'json', RECORD)).not.toBeNull()
  })

  it('takes text or bytes from a function, and nothing else', () => {
    expect(textOf(1, () => 'x')).toBe(textOf(2, () => new Uint8Array([0x78])))
    expect(() => textOf(1, (() => 5) as never)).toThrow(InvalidInputError)
  })

  it('differs between records with the same input, and between keys', () => {
    const keys = [null, new FingerprintKeys([OLD]), new FingerprintKeys([NEW])]
    const texts = keys.flatMap((key) =>
      [RECORD, 'b'.repeat(64)].map((record) => fingerprintOf({ pin: 1 }, 'json', record, key)?.text),
    )
    expect(new Set(texts).size).toBe(6)
  })

  it('recognises the input of records that were written with another key, without one, or by version 1', () => {
    const now = new FingerprintKeys([NEW, OLD])
    const [same, other] = [{ pin: 1 }, { pin: 2 }].map((input) => fingerprintOf(input, 'json', RECORD, now))
    const before = [null, new FingerprintKeys([OLD]), new FingerprintKeys([NEW])].map(
      (keys) => fingerprintOf({ pin: 1 }, 'json', RECORD, keys)?.text ?? null,
    )
    for (const kept of [...before, plainDigest({ pin: 1 })]) {
      expect(same?.compare(kept)).toBe('same')
      expect(other?.compare(kept)).toBe('other')
    }
    const foreign = fingerprintOf({ pin: 1 }, 'json', RECORD, new FingerprintKeys([Buffer.alloc(32, 3)]))
    expect(same?.compare(foreign?.text ?? null)).toBe('unknown')
    expect(same?.compare('v9:future')).toBe('unknown')
  })

  it.each([[Buffer.alloc(31)], [[]], [[OLD, 'text']], [true]])(
    'refuses %o as a key',
    async (fingerprintKey) => {
      const options = { fingerprintKey, allowVolatile: true } as unknown as IdempotencyOptions
      await expect(createIdempotency(memoryRecords(), options)).rejects.toThrow(/fingerprintKey/)
    },
  )
})

describe('fingerprints of records', { tags: ['secrets'] }, () => {
  const target = { scope: { tenant: 't', operation: 'set-pin' }, key: 'k', input: { pin: '4711' } }
  const other = { ...target, input: { pin: '4712' } }
  const recordKey = recordKeyOf('default', target)
  const encrypted = (keys: Record<string, Buffer>, current: string): IdempotencyOptions => ({
    codec: encryptedCodec({ keys, current }),
    allowVolatile: true,
  })

  /** The same records for several clients, one after the other. */
  async function clients(
    configured: readonly IdempotencyOptions[],
    use: (client: Idempotency, index: number) => Promise<void>,
  ): Promise<void> {
    const store = memoryRecords()
    await store.open()
    const kept = new Proxy(store, {
      get: (records, name) => (name === 'close' ? async () => {} : bound(records, name)),
    })
    for (const [index, options] of configured.entries()) {
      await using client = await createIdempotency(kept, options)
      await use(client, index)
    }
    await store.close()
  }

  it('cannot be guessed by a reader of the store where results are encrypted', async () => {
    await clients([encrypted({ a: OLD }, 'a')], async (client) => {
      await client.run(target, () => 'ok')
      const kept = (await client.store.read(recordKey))?.fingerprint ?? null
      expect(kept).toMatch(/^v2:[0-9a-f]{64}$/)
      const guesses = [null, new FingerprintKeys([NEW])].map((keys) =>
        fingerprintOf(target.input, 'json', recordKey, keys),
      )
      for (const guess of guesses) expect(guess?.compare(kept)).toBe('unknown')
      expect(kept).not.toContain(plainDigest(target.input).slice(3, 19))
      expect(JSON.stringify(await client.inspect(target), replacer)).not.toContain(kept)
    })
  })

  it('are compared after a key was added, rotated, and given as an option', async () => {
    const configured = [
      { allowVolatile: true },
      encrypted({ a: OLD }, 'a'),
      encrypted({ a: OLD, b: NEW }, 'b'),
      { fingerprintKey: [NEW, OLD], allowVolatile: true },
    ]
    await clients(configured, async (client, index) => {
      // One record of each client before, with a result that all of them can read.
      for (let before = 0; before <= index; before += 1) {
        const order = { ...target, key: `k${before}` }
        const options = { codec: jsonCodec, ...(index < 3 && { fingerprintKey: keyOf(index) }) }
        const { replayed } = await client.run(order, () => 'ok', options)
        expect(replayed).toBe(before < index)
        await expect(client.run({ ...other, key: order.key }, () => 'ok', options)).rejects.toMatchObject({
          code: 'KEY_REUSED',
        })
      }
    })
  })

  it('of an earlier version do not stop a repetition', async () => {
    await clients([{ allowVolatile: true }], async (client) => {
      const owner = 'o'.repeat(32)
      const claim = { key: recordKey, owner, fingerprint: plainDigest(target.input), leaseMs: 60_000 }
      const claimed = await client.store.claim({
        ...claim,
        retentionMs: 60_000,
        takeOver: true,
        onlyIssued: false,
      })
      if (claimed.kind !== 'claimed') throw new Error(claimed.kind)
      const { fence } = claimed
      const result = await jsonCodec.encode('before', recordKey)
      await client.store.finish({
        key: recordKey,
        owner,
        fence,
        state: 'completed',
        result,
        retentionMs: 60_000,
      })
      expect(await client.run<string>(target, () => 'again')).toMatchObject({
        value: 'before',
        replayed: true,
      })
    })
  })
})

function keyOf(index: number): FingerprintKey {
  return [false as const, OLD, [NEW, OLD]][index] ?? false
}

function bound(records: object, name: string | symbol): unknown {
  const found: unknown = Reflect.get(records, name)
  return typeof found === 'function' ? found.bind(records) : found
}

const replacer = (_key: string, value: unknown): unknown =>
  typeof value === 'bigint' ? String(value) : value

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
