import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  dated,
  type Entry,
  liveIn,
  type ReadLine,
  readLine,
  type StoredLine,
  writeLine,
} from '../../src/backends/memcached/stored.js'
import {
  certainMs,
  isDate,
  lastEnd,
  RELATIVE_TICKS_MAX,
  TTL_MAX_MS,
  TTL_MIN_MS,
  ticksFor,
} from '../../src/backends/memcached/ticks.js'
import { claimOf } from '../support/claims.js'

/**
 * The clock of memcached as its source has it: a timer of one second, set anew each time it fires and so a little late each
 * time, reads the machine's clock and cuts it to whole seconds.
 */
class TickingClock {
  /** Of the machine, in seconds. */
  machine = 0
  #count = 0
  #firesAt: number
  readonly #late: () => number

  constructor(phase: number, late: () => number) {
    this.#firesAt = phase
    this.#late = late
  }

  go(seconds: number): void {
    const until = this.machine + seconds
    while (this.#firesAt <= until) {
      this.#count = Math.floor(this.#firesAt)
      this.#firesAt += 1 + this.#late()
    }
    this.machine = until
  }

  get count(): number {
    return this.#count
  }
}

const STARTED = 1_790_000_000
const SHAPE = { kind: 'semaphore', limit: 9 } as const

/** One item of a server with that clock. */
class TickingItem {
  readonly clock: TickingClock
  #data: string | null = null
  #endsAt = 0

  constructor(clock: TickingClock) {
    this.clock = clock
  }

  write(line: StoredLine): void {
    this.#data = writeLine('record', line)
    const expiry = line.date === 0 ? lastEnd(line.entries) : line.date
    expect(expiry).toBeGreaterThan(0)
    // As the server takes it: a date beyond thirty days, a number of ticks below.
    this.#endsAt = expiry > RELATIVE_TICKS_MAX ? expiry - STARTED : this.clock.count + expiry
  }

  read(): ReadLine | null {
    const left = this.#endsAt - this.clock.count
    return this.#data === null || left <= 0 ? null : readLine('record', this.#data, left)
  }

  readDated(): ReadLine | null {
    const line = this.read()
    return line !== null && line.date === 0 ? dated(line, STARTED + this.clock.count) : line
  }
}

function entryOf(id: string, now: number, ms: number): Entry {
  const { owner } = claimOf('x')
  return { id, weight: 1, endsAt: now + ticksFor(ms), joinedAt: now, owner, note: null }
}

/** How late the server's timer may be; a hold is given up by more than this before its lease is over. */
const LATE_MAX = 0.1

/** Evenly spread, which doubles of fast-check are not. */
const seconds = (max: number): fc.Arbitrary<number> =>
  fc.integer({ min: 0, max: Math.round(max * 1e6) }).map((micros) => micros / 1e6)
/** Mostly a little late, and now and then as late as on a machine that stalls. */
const lateness = fc.infiniteStream(
  fc.oneof({ weight: 9, arbitrary: seconds(0.002) }, { weight: 1, arbitrary: seconds(LATE_MAX) }),
)
const phases = seconds(0.999)

function clockOf(phase: number, late: Iterator<number>): TickingClock {
  return new TickingClock(phase, () => late.next().value as number)
}

describe('lives in ticks', () => {
  it('an item that is given enough ticks for a lease is there until the lease is over', () => {
    const property = fc.property(
      phases,
      lateness,
      seconds(50),
      fc.integer({ min: TTL_MIN_MS, max: 60_000 }),
      (phase, late, before, ms) => {
        const item = new TickingItem(clockOf(phase, late))
        item.clock.go(before)
        item.write({ date: 0, shape: SHAPE, entries: [entryOf('a', 0, ms)], name: null })
        item.clock.go(ms / 1_000 - LATE_MAX)
        expect(item.read()).not.toBeNull()
        item.clock.go(ticksFor(ms) + 2 - ms / 1_000)
        expect(item.read()).toBeNull()
      },
    )
    fc.assert(property, { numRuns: 2_000 })
  })

  it('one tick less would not be enough, because the count leaps now and then', () => {
    const late = [0.05, 0.05, 0.05].values()
    const item = new TickingItem(new TickingClock(0.97, () => late.next().value ?? 0))
    item.clock.go(1.98)
    const entry = entryOf('a', 0, 1_000)
    item.write({ date: 0, shape: SHAPE, entries: [{ ...entry, endsAt: entry.endsAt - 1 }], name: null })
    item.clock.go(0.999)
    expect(item.read()).toBeNull()
  })

  it('no entry goes before its lease is over, none is shortened by a renewal, and each goes in time, whatever others do', () => {
    const step = fc.record({
      what: fc.constantFrom('join', 'renew', 'touch', 'touch'),
      who: fc.integer({ min: 0, max: 3 }),
      ms: fc.integer({ min: TTL_MIN_MS, max: 8_000 }),
      /** Between the steps, and between reading and writing in one. */
      before: seconds(0.6),
      between: seconds(0.5),
    })
    const property = fc.property(
      phases,
      lateness,
      fc.array(step, { minLength: 1, maxLength: 60 }),
      (phase, late, steps) => {
        const item = new TickingItem(clockOf(phase, late))
        /** Until when each may rely on its place, and when it must be gone, by the machine's clock. */
        const certain = new Map<string, number>()
        const latest = new Map<string, number>()
        for (const { what, who, ms, before, between } of steps) {
          item.clock.go(before)
          const { machine } = item.clock
          const line = item.readDated()
          const live = line === null ? [] : liveIn(line)
          const ids = new Set(live.map(({ id }) => id))
          for (const [id, until] of certain) if (machine < until - LATE_MAX) expect(ids).toContain(id)
          for (const [id, until] of latest) if (machine > until) expect(ids).not.toContain(id)
          for (const { id, endsAt } of live) {
            const promised = machine + certainMs(endsAt - (line as ReadLine).now) / 1_000
            certain.set(id, Math.max(certain.get(id) ?? 0, promised))
          }
          const id = `claim-${who}`
          const now = line?.now ?? 0
          let entries = live
          if (what === 'join' && !ids.has(id)) entries = [...live, entryOf(id, now, ms)]
          else if (what === 'renew') {
            entries = live.map((entry) =>
              entry.id === id ? { ...entry, endsAt: Math.max(entry.endsAt, now + ticksFor(ms)) } : entry,
            )
          }
          if (entries.length === 0) continue
          // Others come and go all the time, and ticks go by between their reading and their writing.
          item.clock.go(between)
          item.write({ date: line === null ? 0 : lastEnd(entries), shape: SHAPE, entries, name: null })
          const mine = entries.find((entry) => entry.id === id)
          if (what !== 'touch' && mine !== undefined) {
            certain.set(id, Math.max(certain.get(id) ?? 0, machine + certainMs(mine.endsAt - now) / 1_000))
            // A first writing counts from when it arrives; and the count may be as late as its timer.
            const from = line === null ? item.clock.machine : machine
            latest.set(id, Math.max(latest.get(id) ?? 0, from + (mine.endsAt - now) + 2))
          }
        }
      },
    )
    fc.assert(property, { numRuns: 2_000 })
  })

  it('a dead entry goes although others write the line at every tick', () => {
    const item = new TickingItem(new TickingClock(0.5, () => 0.001))
    item.write({ date: 0, shape: SHAPE, entries: [entryOf('dead', 0, 2_000)], name: null })
    let line = item.readDated() as ReadLine
    for (let turn = 0; turn < 40; turn += 1) {
      // Each has read before the tick and writes after it.
      item.clock.go(0.5)
      line = item.readDated() as ReadLine
      item.clock.go(0.5)
      const others = liveIn(line).filter(({ id }) => id !== 'busy')
      const entries = [...others, entryOf('busy', line.now, 5_000)]
      item.write({ ...line, date: lastEnd(entries), entries })
    }
    expect(line.entries.map(({ id }) => id)).toEqual(['busy'])
  })

  it('never writes an expiry that the server takes for something else', () => {
    for (const ms of [1, TTL_MIN_MS, 1_001, 86_400_000, TTL_MAX_MS, TTL_MAX_MS + 1, 2 ** 31]) {
      expect(ticksFor(ms)).toBeGreaterThan(0)
      expect(ticksFor(ms)).toBeLessThanOrEqual(RELATIVE_TICKS_MAX)
    }
    expect(certainMs(ticksFor(TTL_MAX_MS))).toBeGreaterThanOrEqual(TTL_MAX_MS)
    for (const tick of [0, 1, RELATIVE_TICKS_MAX, 2 ** 31 - 1, 2 ** 32, Number.NaN, 1.5]) {
      expect(isDate(tick)).toBe(false)
    }
    expect(isDate(STARTED)).toBe(true)
  })
})

describe('what is stored', () => {
  it('comes back as it was written, whatever is in it', () => {
    const entry = fc.record({
      id: fc.string({ minLength: 1 }),
      weight: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
      endsAt: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
      joinedAt: fc.integer({ min: -1_000_000, max: 2 ** 31 - 1 }),
      owner: fc.record({ host: fc.string({ unit: 'grapheme' }), pid: fc.nat(), client: fc.string() }),
      note: fc.option(fc.string({ unit: 'binary' })),
    })
    const property = fc.property(
      fc.array(entry, { minLength: 1, maxLength: 5 }),
      fc.constantFrom('mutex', 'semaphore', 'read-write'),
      fc.integer({ min: 1, max: 2 ** 31 - 1 }),
      fc.option(fc.string({ unit: 'grapheme' })),
      (entries, kind, limit, name) => {
        const line: StoredLine = { date: lastEnd(entries), shape: { kind, limit } as never, entries, name }
        const text = writeLine('record', line)
        // One byte in each character, and no line break, so that the server is told the right length.
        expect(text).toMatch(/^[\u0020-\u007e]*$/)
        expect(readLine('record', text, 7)).toEqual({ ...line, now: line.date - 7 })
      },
    )
    fc.assert(property, { numRuns: 500 })
  })

  it('is nothing where somebody else wrote it', () => {
    const property = fc.property(
      fc.oneof(fc.string(), fc.json()),
      fc.integer({ min: -1, max: 99 }),
      (text, left) => {
        const line = readLine('record', `holdfast-record-1 ${text}`, left)
        if (line !== null) expect(line.entries.length).toBeGreaterThan(0)
      },
    )
    fc.assert(property, { numRuns: 2_000 })
    for (const text of [
      '[]',
      '[0,0,1,[]]',
      '[0,9,1,[["a",1,1,0,"h",1,"c",null]]]',
      '[0,0,1,[["a",0,1,0,"h",1,"c",null]]]',
    ])
      expect(readLine('record', `holdfast-record-1 ${text}`, 1)).toBeNull()
  })
})
