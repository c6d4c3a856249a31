import { readFileSync } from 'node:fs'
import type { MemcachedServer } from 'holdfast-servers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { titled } from '../../../../test/support/titled.js'
import { until } from '../../../../test/support/wait.js'
import type { Backend } from '../../src/core/backend.js'
import { InvalidInputError, UnsupportedError } from '../../src/core/errors.js'
import { refOf } from '../../src/core/names.js'
import { connect } from '../../src/index.js'
import { memcachedBackend } from '../../src/memcached.js'
import { claimOf } from '../support/claims.js'
import { backendAt, isMissing, locksAt, RECIPES, rejection, started, whyMissing } from './support.js'

const NOW = { waitMs: 0, leaseMs: 5_000 }
const WAIT = { waitMs: 1_000, leaseMs: 5_000 }

async function startOnce(): Promise<MemcachedServer> {
  const { startMemcached } = await import('holdfast-servers')
  return startMemcached()
}

let server: MemcachedServer
beforeAll(async () => {
  if (!isMissing) server = await startOnce()
})
afterAll(async () => {
  await server?.dispose()
})

const ODD = ['a/b', '..', '%2f', 'a b', 'ü:1', '%~', 'x'.repeat(512), 'é'.repeat(256), 'key 0 0 1']

describe.skipIf(isMissing)(titled('names', whyMissing), () => {
  test.each(RECIPES)('are keys of their own, and are listed as they were given (%s)', async (recipe) => {
    const locks = await locksAt(`${server.url}?recipe=${recipe}&prefix=odd-${recipe}:`)
    const holds = await Promise.all(ODD.map((name) => locks.mutex(name).acquire()))
    const listed: string[] = []
    for await (const { resource } of locks.list()) listed.push(resource)
    expect(listed.toSorted()).toEqual(ODD.toSorted())
    for (const hold of holds) expect(await hold.release()).toBe('released')
  })

  test('with a line break are refused before the server is asked', async () => {
    const locks = await locksAt(server.url)
    const before = (await server.stats())['cmd_set']
    expect(() => locks.mutex('a\r\nflush_all\r\n')).toThrow(InvalidInputError)
    expect(await rejection(locks.inspect('a\r\nmn'))).toBeInstanceOf(InvalidInputError)
    expect((await server.stats())['cmd_set']).toBe(before)
  })

  test('are the keys themselves with `exactPath`, if they can be', async () => {
    const locks = await locksAt(`${server.url}?exactPath=true&recipe=add`)
    const hold = await locks.mutex('jobs/nightly:ü').acquire()
    expect(await server.command(`mg ${Buffer.from('jobs/nightly:ü').toString('latin1')} c`)).toMatch(/^HD c/)
    await hold.release()
    for (const name of ['a b', '\u00a0', 'x'.repeat(251)]) {
      expect(await rejection(locks.mutex('ok').run(() => locks.mutex(name).acquire()))).toBeInstanceOf(
        InvalidInputError,
      )
    }
  })

  test('cannot be listed where the crawler is off, which is said plainly', async () => {
    const other = await started({ args: ['-o', 'no_lru_crawler'] })
    const locks = await locksAt(other.url)
    await using hold = await locks.mutex('a').acquire()
    const error = await rejection(locks.list()[Symbol.asyncIterator]().next())
    expect(error).toBeInstanceOf(UnsupportedError)
    expect(String(error)).toContain('no_lru_crawler')
    expect((await locks.inspect('a')).holders).toHaveLength(1)
    hold.assertHeld()
  })
})

describe.skipIf(isMissing)(titled('what others wrote', whyMissing), () => {
  test.each(RECIPES)('is refused and never overwritten (%s)', async (recipe) => {
    const backend = await backendAt(`${server.url}?recipe=${recipe}&prefix=theirs:`)
    for (const [name, text] of [
      ['plain', 'cached page'],
      ['never', 'holdfast-record-1 [0,0,1,[["a",1,1,0,"h",1,"c",null]]]'],
      ['broken', `holdfast-${recipe}-1 [0,0,`],
    ] as const) {
      await server.command(`ms theirs:${name} ${text.length} T0\r\n${text}`)
      const claim = claimOf(name)
      expect(await rejection(backend.attempt(claim, NOW))).toBeInstanceOf(UnsupportedError)
      expect(await rejection(backend.attempt(claim, WAIT))).toBeInstanceOf(UnsupportedError)
      expect(await rejection(backend.release(claim))).toBeInstanceOf(UnsupportedError)
      expect(await rejection(backend.renew([{ claim, fence: null, leaseMs: 5_000 }]))).toBeInstanceOf(
        UnsupportedError,
      )
      expect(await server.command(`mg theirs:${name} s`)).toBe(`HD s${text.length}`)
    }
    for await (const view of backend.list('')) expect.fail(`${view.resource} is listed`)
  })

  test('with the other recipe is a conflict that is told', async () => {
    const [record, add] = [await backendAt(server.url), await backendAt(`${server.url}?recipe=add`)]
    const mine = claimOf('both')
    await record.attempt(mine, NOW)
    expect(String(await rejection(add.attempt(claimOf('both'), NOW)))).toContain('recipe `record`')
    expect(await record.release(mine)).toBe('released')
    const theirs = claimOf('both')
    await add.attempt(theirs, NOW)
    expect(String(await rejection(record.attempt(claimOf('both'), WAIT)))).toContain('recipe `add`')
    expect(await add.release(theirs)).toBe('released')
  })
})

async function dataOf(name: string): Promise<string> {
  return await dataAt(server, name)
}

async function dataAt(at: MemcachedServer, name: string): Promise<string> {
  return await at.command(`mg holdfast:${name} v`)
}

describe.skipIf(isMissing)(titled('the line', whyMissing), () => {
  test('lets nobody in past an entry that has expired without taking it out', async () => {
    const [one, other] = [await backendAt(server.url), await backendAt(server.url)]
    const dead = claimOf('past', { ttlMs: 3_000 })
    const next = claimOf('past', { ttlMs: 60_000 })
    await one.attempt(dead, NOW)
    expect(await other.attempt(next, { waitMs: 1_000, leaseMs: 60_000 })).toMatchObject({
      kind: 'waiting',
      ahead: 1,
    })
    expect(await dataOf('past')).toContain(`"${dead.id}"`)
    await until('it is granted', async () => (await other.attempt(next, WAIT)).kind === 'granted')
    expect(await dataOf('past')).not.toContain(`"${dead.id}"`)
    expect(await one.renew([{ claim: dead, fence: null, leaseMs: 60_000 }])).toEqual(['lost'])
    expect(await other.release(next)).toBe('released')
  })

  test('goes by the date as soon as a second one is in it, and a reader at every tick keeps nobody alive', async () => {
    const [one, other] = [await backendAt(server.url), await backendAt(server.url)]
    const dead = claimOf('churn', { ttlMs: 2_000, shape: { kind: 'semaphore', limit: 99 } })
    const busy = (): typeof dead => claimOf('churn', { ttlMs: 30_000, shape: dead.shape })
    await one.attempt(dead, NOW)
    const since = performance.now()
    const isThere = async (): Promise<boolean> =>
      (await one.inspect('churn')).holders.some(({ ref }) => ref === refOf(dead.id))
    const churn = async (): Promise<boolean> => {
      const claims = Array.from({ length: 8 }, busy)
      await Promise.all(claims.map((claim) => other.attempt(claim, NOW)))
      const isGone = !(await isThere())
      await Promise.all(claims.map((claim) => other.release(claim)))
      return isGone
    }
    // If a reader or a writer kept it alive, it would never be gone.
    await until('the dead claim is gone', churn, { everyMs: 1, state: () => one.inspect('churn') })
    expect(performance.now() - since).toBeGreaterThan(1_900)
  })

  test('rejects a new claim when the record is full and keeps the existing ones', async () => {
    const small = await started({ args: ['-I', '512k'] })
    const backend = await backendAt(small.url)
    // A lease that ends meanwhile makes room again, and on a slow machine the record would never be full.
    const ttlMs = 600_000
    const holder = claimOf('full', { note: 'x'.repeat(900), ttlMs })
    await backend.attempt(holder, NOW)
    const join = (): Promise<unknown> =>
      backend
        .attempt(claimOf('full', { note: 'x'.repeat(900), ttlMs }), { waitMs: 1_000, leaseMs: ttlMs })
        .then(
          () => null,
          (error: unknown) => error,
        )
    let refused: unknown = null
    let waiting = -1
    while (refused === null && waiting < 600) {
      waiting += 1
      refused = await join()
    }
    expect(String(refused)).toContain('claims stand in the line')
    const full = await dataAt(small, 'full')
    expect(String(await join())).toContain('claims stand in the line')
    expect(await dataAt(small, 'full')).toBe(full)
    expect(full.match(/x{900}/g)).toHaveLength(1 + waiting)
    expect((await backend.inspect('full')).holders).toHaveLength(1)
    expect(await backend.renew([{ claim: holder, fence: null, leaseMs: 20_000 }])).toEqual(['renewed'])
    // What it is kept from: the server drops what it had when something is too large for it.
    const large = 'x'.repeat(600_000)
    expect(await small.command(`ms holdfast:full ${large.length} T60\r\n${large}`)).toMatch(/^SERVER_ERROR/)
    expect((await backend.inspect('full')).shape).toBeNull()
  })

  test('takes one round trip to begin and one to end where nobody else is', async () => {
    const backend = await backendAt(server.url)
    const before = await server.stats()
    const claim = claimOf('alone')
    await backend.attempt(claim, NOW)
    await backend.renew([{ claim, fence: null, leaseMs: claim.ttlMs }])
    await backend.release(claim)
    const after = await server.stats()
    const grown = (name: string): number => Number(after[name]) - Number(before[name])
    expect([grown('cmd_set'), grown('cmd_get'), grown('delete_hits')]).toEqual([2, 0, 1])
  })

  test('has no expiry that means something else, however short or long the lease is', async () => {
    const backend = await backendAt(server.url)
    const { ttlMinMs, ttlMaxMs } = backend.guarantees
    for (const ttlMs of [ttlMinMs, 1_001, ttlMaxMs]) {
      const [claim, next] = [claimOf('traps', { ttlMs }), claimOf('traps', { ttlMs })]
      const since = performance.now()
      const passedS = (): number => Math.ceil((performance.now() - since) / 1_000) - 1
      await backend.attempt(claim, NOW)
      const left = async (): Promise<number> =>
        Number((await server.command('mg holdfast:traps t')).replace(/\D+/g, ''))
      expect((await left()) + passedS()).toBeGreaterThanOrEqual(ttlMs / 1_000)
      expect(await left()).toBeLessThanOrEqual(Math.ceil(ttlMs / 1_000) + 2)
      await backend.attempt(next, { waitMs: 1_000, leaseMs: ttlMs })
      expect((await left()) + passedS()).toBeGreaterThanOrEqual(ttlMs / 1_000 - 1)
      expect(await left()).toBeLessThanOrEqual(Math.ceil(ttlMs / 1_000) + 3)
      expect(await backend.renew([{ claim, fence: null, leaseMs: 1 }])).toEqual(['renewed'])
      expect((await left()) + passedS()).toBeGreaterThanOrEqual(ttlMs / 1_000 - 1)
      expect([await backend.release(claim), await backend.release(next)]).toEqual(['released', 'released'])
    }
  })

  test('is not shortened by a renewal for less, and only asked by one for nothing', async () => {
    for (const recipe of RECIPES) {
      const backend = await backendAt(`${server.url}?recipe=${recipe}&prefix=short-${recipe}:`)
      const claim = claimOf('long', { ttlMs: 60_000 })
      await backend.attempt(claim, NOW)
      for (const leaseMs of [0, 1_000]) {
        expect(await backend.renew([{ claim, fence: null, leaseMs }])).toEqual(['renewed'])
        expect((await backend.inspect('long')).holders[0]?.remainingMs).toBeGreaterThan(30_000)
      }
      expect(await backend.release(claim)).toBe('released')
      expect(await backend.renew([{ claim, fence: null, leaseMs: 0 }])).toEqual(['lost'])
    }
  })
})

describe.skipIf(isMissing)(titled('opening', whyMissing), () => {
  test('refuses several servers, unknown options and what does not fit', async () => {
    for (const [url, message] of [
      ['memcached://a,b', /one server/],
      ['memcached://a/path', /path/],
      ['memcached://a?recipy=add', /recipy/],
      ['memcached://a?recipe=cas', /'record' or 'add'/],
      ['memcached://a?exactPath=maybe', /exactPath/],
      ['memcached://a?prefix=a%20b', /prefix/],
      ['memcached://a?ca=/tmp/x', /memcacheds/],
    ] as const) {
      expect(String(await rejection(connect(url)))).toMatch(message)
    }
    expect(() => memcachedBackend({ host: 'a,b' })).toThrow(/one server/)
    expect(String(await rejection(connect(server.url, { requireFence: true })))).toContain('fences')
  })

  test('works over TLS, and only with a certificate that is trusted', async () => {
    const secure = await started({ tls: true })
    const locks = await connect(`${secure.url}?ca=${secure.ca}`)
    await locks.mutex('secret').run(() => {})
    await locks.close()
    expect(await rejection(connect(secure.url))).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    const ca = readFileSync(secure.ca as string, 'utf8')
    const backend: Backend = memcachedBackend({ host: '127.0.0.1', port: secure.port, tls: true, ca })
    await backend.open({ granted() {}, wanted() {}, hint() {}, lost() {} })
    await backend.close()
  })

  test('logs in with a user name and a password, which show in no error', async () => {
    const { chmod, mkdtemp, writeFile } = await import('node:fs/promises')
    const { tmpdir } = await import('node:os')
    const folder = await mkdtemp(`${tmpdir()}/holdfast-users-`)
    await chmod(folder, 0o755)
    await writeFile(`${folder}/users`, 'anna:s3cret\n', { mode: 0o644 })
    const guarded = await started({ args: ['-Y', `${folder}/users`] })
    const at = (login: string): string => guarded.url.replace('//', `//${login}`)
    const locks = await locksAt(at('anna:s3cret@'))
    await using hold = await locks.mutex('mine').acquire()
    const names: string[] = []
    for await (const { resource } of locks.list()) names.push(resource)
    expect(names).toEqual(['mine'])
    hold.assertHeld()
    for (const login of ['', 'anna:wr0ng@']) {
      const error = await rejection(connect(at(login)))
      expect(error).toBeInstanceOf(UnsupportedError)
      expect(String(error)).not.toMatch(/wr0ng|anna/)
    }
  })
})
