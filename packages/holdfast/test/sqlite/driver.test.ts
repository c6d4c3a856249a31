import { describe, expect, it } from 'vitest'
import { type DriverSource, pickDriver } from '../../src/backends/sqlite/driver.js'
import { UnsupportedError } from '../../src/core/errors.js'

class Builtin {}
class Libsql {}
class Better {}

function absent(name: string): Error {
  return Object.assign(new Error(`Cannot find package '${name}' imported from /app/driver.js`), {
    code: 'ERR_MODULE_NOT_FOUND',
  })
}

function source(nodeMajor: number, packages: Record<string, unknown>, builtin?: unknown): DriverSource {
  return {
    nodeMajor,
    builtin: () => builtin,
    load: async (name) => {
      const found = packages[name]
      if (found instanceof Error) throw found
      if (found === undefined) throw absent(name)
      return { default: found }
    },
  }
}

describe('the choice of a SQLite driver', () => {
  const both = { libsql: Libsql, 'better-sqlite3': Better }

  it('is the built-in one from Node 24 on', async () => {
    expect(await pickDriver(undefined, source(24, both, { DatabaseSync: Builtin }))).toBe(Builtin)
  })

  it('is libsql on an older Node, even where an experimental built-in one exists', async () => {
    expect(await pickDriver(undefined, source(22, both, { DatabaseSync: Builtin }))).toBe(Libsql)
  })

  it('is libsql where a runtime says 24 but has no built-in one', async () => {
    expect(await pickDriver(undefined, source(24, both))).toBe(Libsql)
  })

  it('is better-sqlite3 where libsql is not installed', async () => {
    expect(await pickDriver(undefined, source(20, { 'better-sqlite3': Better }))).toBe(Better)
  })

  it('can be given', async () => {
    expect(await pickDriver('better-sqlite3', source(24, both, { DatabaseSync: Builtin }))).toBe(Better)
    expect(await pickDriver('libsql', source(24, both, { DatabaseSync: Builtin }))).toBe(Libsql)
    expect(await pickDriver('node:sqlite', source(22, both, { DatabaseSync: Builtin }))).toBe(Builtin)
  })

  it('names the command to run where there is none', async () => {
    const error = await pickDriver(undefined, source(20, {})).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(UnsupportedError)
    expect(String(error)).toContain('npm install libsql')
  })

  it('does not fall back from a given driver that is missing', async () => {
    await expect(pickDriver('better-sqlite3', source(20, { libsql: Libsql }))).rejects.toThrow(
      'npm install better-sqlite3',
    )
    await expect(pickDriver('node:sqlite', source(20, both))).rejects.toThrow(/Node 24/)
  })

  it('shows why an installed package does not load, and does not take the next one', async () => {
    // That is how libsql fails when its binary for the platform was not installed.
    const broken = Object.assign(new Error("Cannot find module '@libsql/linux-x64-gnu'"), {
      code: 'MODULE_NOT_FOUND',
    })
    const tried = pickDriver(undefined, source(20, { libsql: broken, 'better-sqlite3': Better }))
    const error = await tried.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(UnsupportedError)
    expect(String(error)).toContain('@libsql/linux-x64-gnu')
    expect((error as UnsupportedError).cause).toBe(broken)
  })

  it('finds a real one here', async () => {
    const Database = await pickDriver(undefined)
    expect(typeof Database).toBe('function')
  })

  it('knows a package that is really absent from one that is broken', async () => {
    const real: DriverSource = {
      nodeMajor: 20,
      builtin: () => undefined,
      load: (name) => import(/* @vite-ignore */ `holdfast-absent-${name}`),
    }
    // The absent package has another name than the one asked for, so this must not count as "libsql is
    // absent".
    await expect(pickDriver('libsql', real)).rejects.toThrow(/does not load/)
  })
})
