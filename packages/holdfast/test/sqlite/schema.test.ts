import { readFile } from 'node:fs/promises'
import { describe, expect, it, vi } from 'vitest'
import { sqliteBackend } from '../../src/backends/sqlite/backend.js'
import { BackendUnavailableError, UnsupportedError } from '../../src/core/errors.js'
import {
  claimOf,
  FakeMachine,
  fenceOf,
  NO_SINK,
  NOW_OR_NEVER,
  openBackend,
  openRaw,
  PATIENT,
  tempPath,
  value,
} from './support.js'

describe('a database', () => {
  it('of another program is refused and not touched', async () => {
    const path = await tempPath()
    const raw = await openRaw(path)
    raw.exec("CREATE TABLE diary (day TEXT); INSERT INTO diary VALUES ('monday')")
    raw.close()
    const before = await readFile(path)
    await expect(sqliteBackend({ path }).open(NO_SINK)).rejects.toThrow(UnsupportedError)
    expect((await readFile(path)).equals(before)).toBe(true)
  })

  it('of another program that has no table yet is refused by its mark', async () => {
    const path = await tempPath()
    const raw = await openRaw(path)
    raw.exec('PRAGMA user_version = 3')
    raw.close()
    await expect(sqliteBackend({ path }).open(NO_SINK)).rejects.toThrow(UnsupportedError)
  })

  it('of a later Holdfast is refused and not touched', async () => {
    const path = await tempPath()
    const backend = await openBackend({ path, machine: new FakeMachine() })
    await fenceOf(backend, claimOf('a'))
    await backend.close()
    const raw = await openRaw(path)
    raw.exec('PRAGMA user_version = 2')
    const later = sqliteBackend({ path, machine: new FakeMachine('boot-two') })
    await expect(later.open(NO_SINK)).rejects.toThrow(/version 2/)
    expect(value(raw, 'SELECT count(*) FROM places')).toBe(1)
  })

  it('that is damaged gives a typed error when it opens', async () => {
    const path = await tempPath()
    await (await openBackend({ path, machine: new FakeMachine() })).close()
    const raw = await openRaw(path)
    raw.exec('DELETE FROM meta')
    const later = sqliteBackend({ path, machine: new FakeMachine() })
    await expect(later.open(NO_SINK)).rejects.toThrow(BackendUnavailableError)
    raw.exec("INSERT INTO meta VALUES (1, -7, 'boot-one')")
    await later.open(NO_SINK)
    await expect(later.attempt(claimOf('a'), PATIENT)).rejects.toThrow(BackendUnavailableError)
    await later.close()
  })

  it('is in WAL mode with synchronous=NORMAL after opening', async () => {
    const path = await tempPath()
    const database = await openRaw(path)
    await openBackend({ path, database, machine: new FakeMachine() })
    expect(value(database, 'PRAGMA journal_mode')).toBe('wal')
    expect(value(database, 'PRAGMA synchronous')).toBe(1)
  })

  it('commits the jump of a new boot with synchronous=FULL', async () => {
    const path = await tempPath()
    await (await openBackend({ path, machine: new FakeMachine() })).close()
    const database = await openRaw(path)
    const log: string[] = []
    const spied = {
      exec: (sql: string) => {
        log.push(sql)
        return database.exec(sql)
      },
      prepare: (sql: string) => {
        const statement = database.prepare(sql)
        const noted = (): void => void log.push(sql)
        return {
          run: (...params: (string | number | null)[]) => (noted(), statement.run(...params)),
          get: (...params: (string | number | null)[]) => (noted(), statement.get(...params)),
          all: (...params: (string | number | null)[]) => (noted(), statement.all(...params)),
        }
      },
      close: () => database.close(),
    }
    await openBackend({ path, database: spied, machine: new FakeMachine('boot-two') })
    const order = ['PRAGMA synchronous = FULL', 'BEGIN IMMEDIATE', 'DELETE FROM places']
    const positions = [...order, 'COMMIT', 'PRAGMA synchronous = NORMAL'].map((sql) => log.indexOf(sql))
    expect(positions).not.toContain(-1)
    expect(positions).toEqual([...positions].sort((a, b) => a - b))
  })
})

describe('the fence', () => {
  it('grows over all resources, after deletes and after opening again', async () => {
    const path = await tempPath()
    const machine = new FakeMachine()
    const fences: bigint[] = []
    for (let round = 0; round < 3; round += 1) {
      const backend = await openBackend({ path, machine })
      for (const resource of ['a', 'b', 'a', 'c']) {
        const claim = claimOf(resource)
        fences.push(await fenceOf(backend, claim))
        await backend.release(claim)
      }
      await backend.close()
    }
    expect(fences).toEqual(Array.from({ length: 12 }, (_, index) => BigInt(index + 1)))
  })

  it('is not used up by refusals, and grows over an eviction', async () => {
    const backend = await openBackend({ path: await tempPath(), machine: new FakeMachine() })
    const first = claimOf('a')
    const fence = await fenceOf(backend, first)
    expect((await backend.attempt(claimOf('a'), NOW_OR_NEVER)).kind).toBe('refused')
    const ref = (await backend.inspect('a')).holders[0]?.ref ?? ''
    expect(await backend.evict('a', ref)).toBe('evicted')
    expect(await fenceOf(backend, claimOf('a'))).toBe(fence + 1n)
  })

  it('jumps at a new boot, further than lost commits could set it back', async () => {
    const path = await tempPath()
    const first = await openBackend({ path, machine: new FakeMachine('boot-one') })
    const before = await fenceOf(first, claimOf('a'))
    await first.close()
    const second = await openBackend({ path, machine: new FakeMachine('boot-two') })
    const after = await fenceOf(second, claimOf('a'))
    expect(after - before).toBe(2n ** 32n + 1n)
    await second.close()
    const third = await openBackend({ path, machine: new FakeMachine('boot-two') })
    expect(await fenceOf(third, claimOf('b'))).toBe(after + 1n)
  })
})

describe('time', () => {
  it('starts again with a boot, so a boot frees everything', async () => {
    const path = await tempPath()
    const before = new FakeMachine('boot-one')
    before.now = 1e9
    const first = await openBackend({ path, machine: before })
    await fenceOf(first, claimOf('a', { ttlMs: 1e9 }))
    await fenceOf(first, claimOf('b', { ttlMs: 1e9 }))
    await first.close()
    const second = await openBackend({ path, machine: new FakeMachine('boot-two') })
    expect((await second.inspect('a')).holders).toEqual([])
    expect((await second.attempt(claimOf('b'), NOW_OR_NEVER)).kind).toBe('granted')
  })

  it('goes on when a process opens the file again within one boot', async () => {
    const path = await tempPath()
    const machine = new FakeMachine()
    const first = await openBackend({ path, machine })
    await fenceOf(first, claimOf('a'))
    await first.close()
    const second = await openBackend({ path, machine })
    expect((await second.attempt(claimOf('a'), NOW_OR_NEVER)).kind).toBe('refused')
  })

  it.each([10 * 365, -10 * 365])('does not care for a wall clock that steps by %d days', async (days) => {
    const path = await tempPath()
    const backend = await openBackend({ path })
    const held = claimOf('a', { ttlMs: 60_000 })
    await fenceOf(backend, held)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + days * 86_400_000 })
    try {
      const other = await openBackend({ path })
      expect((await other.attempt(claimOf('a'), NOW_OR_NEVER)).kind).toBe('refused')
      const view = await other.inspect('a')
      expect(view.holders[0]?.remainingMs).toBeGreaterThan(50_000)
      expect(view.holders[0]?.remainingMs).toBeLessThanOrEqual(60_000)
      expect(await backend.release(held)).toBe('released')
    } finally {
      vi.useRealTimers()
    }
  })
})
