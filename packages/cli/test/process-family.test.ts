import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { SessionFamily, TerminalFamily } from '../src/run/process-family.js'
import { type ProcessEntry, type ProcessReader, parseStat } from '../src/run/process-table.js'

const SESSION = 50
const COMMAND = 100
const RUN_ID = 'abc-50'

const SELF = entry(process.pid, { parent: 1 })

function entry(pid: number, more: Partial<ProcessEntry> = {}): ProcessEntry {
  return { pid, parent: 1, group: pid, session: SESSION, startTime: pid, isZombie: false, ...more }
}

/** Each scan sees the next table, and the last one again and again. No environment can be read. */
class ScriptedReader implements ProcessReader {
  #tables: readonly (readonly ProcessEntry[])[]

  constructor(...tables: readonly (readonly ProcessEntry[])[]) {
    this.#tables = tables
  }

  set(...tables: readonly (readonly ProcessEntry[])[]): void {
    this.#tables = tables
  }

  readTable(): readonly ProcessEntry[] {
    const [table = [], ...rest] = this.#tables
    if (rest.length > 0) this.#tables = rest
    return [SELF, ...table]
  }

  readVariable(): null {
    return null
  }
}

test('the start time of a process is read from its stat line', () => {
  const line =
    '42 (a) b) S 7 42 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 200 18446744073709551615 1 1 0'
  expect(parseStat(line)).toEqual({
    pid: 42,
    parent: 7,
    group: 42,
    session: 40,
    startTime: 987_654,
    isZombie: false,
  })
})

describe('a session', () => {
  const inSession = (pid: number): ProcessEntry => entry(pid, { session: COMMAND })

  test('is not empty when only one scan in a row finds no process', () => {
    const family = new SessionFamily(COMMAND, RUN_ID, new ScriptedReader([], [inSession(101)]))
    expect(family.alive()).toEqual([101])
  })

  test('is empty when two scans in a row find no process', () => {
    const family = new SessionFamily(COMMAND, RUN_ID, new ScriptedReader([], [], [inSession(101)]))
    expect(family.alive()).toEqual([])
  })
})

describe('at a terminal', () => {
  const command = entry(COMMAND)
  const child = entry(101, { parent: COMMAND })
  const orphan = entry(101, { parent: 1 })
  let reader: ScriptedReader
  let family: TerminalFamily

  beforeEach(() => {
    vi.useFakeTimers()
    reader = new ScriptedReader([command, child])
    family = new TerminalFamily(COMMAND, RUN_ID, reader)
  })
  afterEach(() => {
    family.commandEnded()
    vi.useRealTimers()
  })

  test('a process that was seen while the command ran counts after its parent has ended', () => {
    vi.advanceTimersByTime(10_000)
    family.commandEnded()
    reader.set([orphan])
    expect(family.alive()).toEqual([101])
  })

  test('a process that starts long after the command is seen too', () => {
    reader.set([command])
    vi.advanceTimersByTime(3_600_000)
    reader.set([command, child])
    vi.advanceTimersByTime(60_000)
    family.commandEnded()
    reader.set([orphan])
    expect(family.alive()).toEqual([101])
  })

  test('a process that a remembered one starts counts, also after that one has ended', () => {
    expect(family.alive()).toEqual([COMMAND, 101])
    family.commandEnded()
    reader.set([orphan, entry(102, { parent: 101 })])
    expect(family.alive()).toEqual([101, 102])
    reader.set([entry(102)])
    expect(family.alive()).toEqual([102])
  })

  test('another process with the same pid does not count', () => {
    expect(family.alive()).toEqual([COMMAND, 101])
    family.commandEnded()
    reader.set([entry(101, { startTime: 5_000 })])
    expect(family.alive()).toEqual([])
  })

  test('a process that leaves the session does not count any more', () => {
    expect(family.alive()).toEqual([COMMAND, 101])
    family.commandEnded()
    reader.set([entry(101, { session: 101 })])
    expect(family.alive()).toEqual([])
  })

  test('a process counts that only the second of two scans finds', () => {
    expect(family.alive()).toEqual([COMMAND, 101])
    reader.set([], [command])
    expect(family.alive()).toEqual([COMMAND])
  })

  test('the table is not read on a schedule after the command has ended', () => {
    family.commandEnded()
    expect(vi.getTimerCount()).toBe(0)
  })
})
