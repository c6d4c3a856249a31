import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import type { Locks } from '../../client/client.js'
import { InvalidInputError } from '../../core/errors.js'
import type { Hold } from '../../core/hold.js'
import { NAME_BYTES_MAX } from '../../core/names.js'
import type { Bench } from './bench.js'
import { type Case, needsClaims, needsWeights, type Theme } from './theme.js'
import { asError, rejectionOf } from './waiting.js'

/** Each group holds names that a careless encoding would take for one another. */
const GROUPS: readonly { readonly what: string; readonly names: readonly string[] }[] = [
  {
    what: 'upper and lower case',
    names: ['order', 'Order', 'ORDER', 'ſtraße', 'STRASSE', 'straße', 'i', 'İ', 'I', 'ı'],
  },
  {
    what: 'composed and decomposed letters',
    names: ['caf\u00e9', 'cafe\u0301', '\u212b', '\u00c5', 'A\u030a', 'ﬁ', 'fi'],
  },
  {
    what: 'spaces at the ends and within',
    names: ['a b', 'a  b', 'ab', ' ab', 'ab ', 'ab  ', '\u00a0ab', ' ', '  '],
  },
  {
    what: 'quotes and backslashes',
    names: ["o'clock", "o''clock", 'o"clock', 'o`clock', 'o\\clock', 'o\\\\clock', "'; --", '"'],
  },
  {
    what: 'wildcards',
    names: ['a%', 'a_', 'a*', 'a?', 'a[b]', 'ab', '%', '_', '*', '%25', 'a%25', '^a', 'a$', '.*'],
  },
  {
    what: 'paths',
    names: ['a/b', 'a', 'a/', '/a', 'a//b', '../a', './a', '..', '.', '/', 'a/b/c', 'b', 'a\\b', 'C:\\a'],
  },
  {
    what: 'names that begin with one another',
    names: ['lock', 'lock:', 'lock:1', 'lock:10', 'lock:1:0', 'lock1', 'loc'],
  },
  {
    what: 'braces and separators',
    names: ['{a}b', '{a}c', '{a}', 'a', '{}', '{', '}', 'a:b', 'a;b', 'a,b', 'a|b', 'a&b', 'a=b', 'a#b'],
  },
  {
    what: 'words with a meaning to the language',
    names: [
      '__proto__',
      'constructor',
      'toString',
      'hasOwnProperty',
      'null',
      'undefined',
      '0',
      '00',
      'NaN',
      'true',
    ],
  },
  {
    what: 'characters beyond the basic plane',
    names: [
      '🔒',
      '🔒️',
      '👩‍💻',
      '👩',
      '💻',
      '漢字',
      '汉字',
      'עברית',
      '\u202eabc',
      'abc',
      '\ufeffabc',
      '\u200babc',
    ],
  },
]

const ILLEGAL: readonly (readonly [what: string, name: unknown])[] = [
  ['an empty one', ''],
  ['one that is too long', 'a'.repeat(NAME_BYTES_MAX + 1)],
  ['one whose bytes are too many', 'é'.repeat(NAME_BYTES_MAX / 2 + 1)],
  ['a very long one', 'a'.repeat(5_000_000)],
  ['one with NUL', 'a\u0000b'],
  ['one with a line break', 'a\r\nb'],
  ['one with a tab', 'a\tb'],
  ['one with an escape', '\u001b[31m'],
  ['one with DEL', 'a\u007f'],
  ['one with a C1 control', 'a\u0085b'],
  ['a lone high surrogate', 'a\ud800'],
  ['a lone low surrogate', '\udc00a'],
  ['a number', 1],
  ['null', null],
  ['undefined', undefined],
  ['an array', ['a']],
  ['an object', { toString: () => 'a' }],
]

/** Takes every name at once: two that the store took for one could not both be held. */
async function eachIsItsOwn(bench: Bench, names: readonly string[]): Promise<void> {
  const [a, b] = await bench.pair()
  const holds: Hold[] = []
  for (const name of names) {
    const hold = await a.mutex(name).tryAcquire()
    assert(hold !== null, `${JSON.stringify(name)} was taken for another name.`)
    holds.push(hold)
  }
  for (const [index, name] of names.entries()) {
    const view = await b.inspect(name)
    assert.equal(view.resource, name)
    assert.equal(view.holders.length, 1)
    assert.equal(await b.mutex(name).tryAcquire(), null)
    await holds[index]?.release()
    await using again = await b.mutex(name).tryAcquire()
    assert(again !== null, `${JSON.stringify(name)} was not free after its own release.`)
    for (const hold of holds.slice(index + 1)) hold.assertHeld()
  }
}

async function listed(locks: Locks, prefix?: string): Promise<string[]> {
  const names: string[] = []
  for await (const { resource } of locks.list(prefix)) names.push(resource)
  return names
}

const legal: readonly Case[] = GROUPS.map(({ what, names }) => ({
  title: `each name is its own lock: ${what}`,
  run: (bench) => eachIsItsOwn(bench, names),
}))

const others: readonly Case[] = [
  {
    title: 'each name is its own lock: the longest ones',
    async run(bench) {
      const bytes = Math.min(NAME_BYTES_MAX, bench.guarantees.nameBytesMax)
      const long = 'a'.repeat(bytes - 1)
      const wide = 'é'.repeat(Math.floor(bytes / 2) - 1)
      await eachIsItsOwn(bench, [`${long}a`, `${long}b`, long, wide, `${wide}é`, `${wide}è`])
      assert.equal(Buffer.byteLength(`${long}a`), bytes)
    },
  },
  {
    title: 'every odd name comes back from list() as it was given',
    needs: [needsClaims],
    async run(bench) {
      const names = [...new Set(GROUPS.flatMap((group) => group.names))]
      const [a, b] = await bench.pair()
      const holds = await Promise.all(names.map((name) => a.mutex(name).acquire()))
      assert.deepEqual((await listed(b)).toSorted(), names.toSorted())
      await Promise.all(holds.map((hold) => hold.release()))
      assert.deepEqual(await listed(b), [])
    },
  },
  {
    title: 'a prefix is taken literally by list()',
    needs: [needsClaims],
    async run(bench) {
      const [a, b] = await bench.pair()
      const names = ['a%b', 'a_b', 'aXb', 'A%b', 'a*', 'a[x]', 'a\\', "a'", 'b']
      const holds = await Promise.all(names.map((name) => a.mutex(name).acquire()))
      for (const prefix of ['a', 'a%', 'a_', 'a*', 'a[', 'a\\', "a'", 'A', '%', '_', 'c']) {
        const expected = names.filter((name) => name.startsWith(prefix)).toSorted()
        assert.deepEqual((await listed(b, prefix)).toSorted(), expected, `for the prefix ${prefix}`)
      }
      await Promise.all(holds.map((hold) => hold.release()))
    },
  },
  {
    title: 'an illegal name is refused before the store is asked',
    async run(bench) {
      const { locks, counter } = await bench.counted()
      for (const [what, value] of ILLEGAL) {
        const name = value as string
        assert.throws(() => locks.mutex(name), InvalidInputError, what)
        assert.throws(() => locks.election(name), InvalidInputError, what)
        assert.throws(() => locks.all([name]), InvalidInputError, what)
        asError(InvalidInputError, await rejectionOf(locks.inspect(name)))
        asError(InvalidInputError, await rejectionOf(locks.evict(name, { reason: 'test' })))
      }
      assert.equal(counter.calls(), 0)
    },
  },
  {
    title: 'an illegal name of a shared lock is refused before the store is asked',
    needs: [needsWeights],
    async run(bench) {
      const { locks, counter } = await bench.counted()
      for (const [what, value] of ILLEGAL) {
        const name = value as string
        assert.throws(() => locks.readWrite(name), InvalidInputError, what)
        assert.throws(() => locks.semaphore(name, 2), InvalidInputError, what)
      }
      assert.equal(counter.calls(), 0)
    },
  },
]

export const naming: Theme = { name: 'naming', cases: [...legal, ...others] }
