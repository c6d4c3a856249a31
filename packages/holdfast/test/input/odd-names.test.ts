// @module-tag limits
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect, type Locks } from '../../src/index.js'

const NFC = 'caf\u00e9'
const NFD = 'cafe\u0301'

/** Names that are odd but allowed. Each is a lock of its own, also where a store or a language would fold two into one. */
const ODD_NAMES = [
  ...'__proto__ constructor prototype toString hasOwnProperty undefined null NaN 0 -0'.split(' '),
  ...'. .. ../x / // /etc/passwd a/b a//b a\\b C:\\x %2e%2e % %00 %s ? #'.split(' '),
  ...'{} {a}b {a}c [] * a* _ %_ a_ ab $1 ` \' " \';-- "OR/1=1 \\ \\0'.split(' '),
  ...'x X ß ss SS ı i I İ ſ s K \u212a ﬁ fi'.split(' '),
  ...`${NFC} ${NFD} 😀 👩‍👩‍👧‍👦 🇩🇪 𝒳 אבג العربية 日本語`.split(' '),
  // Those that are hard to see.
  ...'\u200b,\u200d,\ufeff,\u2028,\u202ex,\u00ad,\u00a0,\ufffd,\uffff,\u{10ffff}, ,  , x,x ,a b'.split(','),
  // The longest that are allowed.
  'n'.repeat(512),
  '€'.repeat(170),
  '🔒'.repeat(128),
]

const validName = fc
  .oneof(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 40 }),
    fc.constantFrom(...ODD_NAMES),
  )
  .filter((name) => name.isWellFormed() && !/\p{Cc}/u.test(name) && Buffer.byteLength(name) <= 512)

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-names-'))
})

afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

const STORES = [
  ['memory', () => 'memory:'],
  ['sqlite', () => `sqlite:${folder}/names.db`],
] as const

describe.each(STORES)('odd names on %s', (_, url) => {
  let locks: Locks

  beforeAll(async () => {
    locks = await connect(url())
  })

  afterAll(async () => {
    await locks.close()
  })

  it('are locks of their own, and come back as they were given', async () => {
    expect(new Set(ODD_NAMES).size).toBe(ODD_NAMES.length)
    const holds = []
    for (const name of ODD_NAMES) {
      const hold = await locks.mutex(name).tryAcquire()
      expect(hold, `${JSON.stringify(name)} is held by a lock of another name`).not.toBeNull()
      if (hold !== null) holds.push(hold)
    }
    for (const name of ODD_NAMES) {
      expect(await locks.mutex(name).tryAcquire()).toBeNull()
      const view = await locks.inspect(name)
      expect([view.resource, view.holders.length]).toEqual([name, 1])
    }
    const listed = []
    for await (const { resource } of locks.list()) listed.push(resource)
    expect(listed.toSorted()).toEqual(ODD_NAMES.toSorted())
    for (const hold of holds) expect(await hold.release()).toBe('released')
  })

  it('never stand for each other', async () => {
    const property = fc.asyncProperty(validName, validName, async (one, two) => {
      fc.pre(one !== two)
      const first = await locks.mutex(one).tryAcquire()
      const second = await locks.mutex(two).tryAcquire()
      const again = await locks.mutex(one).tryAcquire()
      const gotten = [first !== null, second !== null, again !== null]
      for (const hold of [again, second, first]) await hold?.release()
      expect(gotten).toEqual([true, true, false])
    })
    await fc.assert(property, { numRuns: 500 })
  })

  it('are found by a prefix taken as it is, without patterns', async () => {
    const hold = await locks.mutex('plain').acquire()
    for (const prefix of ['%', '_', '*', 'p%', 'p_', 'P', '[p]', '\\', "'", '?']) {
      const found = []
      for await (const { resource } of locks.list(prefix)) found.push(resource)
      expect(found, `found by ${prefix}`).toEqual([])
    }
    const found = []
    for await (const { resource } of locks.list('pl')) found.push(resource)
    expect(found).toEqual(['plain'])
    await hold.release()
  })
})
