import { describe, expect, test } from 'vitest'
import { checkHistory } from '../../src/check/check.js'
import type { ViolationKind } from '../../src/check/verdict.js'
import type { HeaderLine } from '../../src/history/format.js'
import { Sketch } from './sketch.js'

type Header = Omit<HeaderLine, 'format'>

/** A history, and what has to be added to it so that one promise is broken. */
interface Plant {
  readonly kind: ViolationKind
  readonly what: string
  readonly header?: Header
  readonly sound: (sketch: Sketch) => void
  readonly plant: (sketch: Sketch) => void
}

const MUTEX: Header = {}
const FENCED: Header = { promises: { fences: true } }
const SEMAPHORE: Header = { resources: { r: { kind: 'semaphore', limit: 3 } }, promises: { fences: true } }
const READ_WRITE: Header = { resources: { r: { kind: 'read-write' } }, promises: { fences: true } }
const REENTRANT: Header = { resources: { r: { kind: 'mutex', reentrant: true } }, promises: { fences: true } }
const TIMED: Header = { promises: { abortWithinMicros: 20, servedWithinMicros: 100 } }
const FAIR: Header = { promises: { fair: true } }
const REGISTER: Header = { resources: { r: { kind: 'register' } } }
const SET: Header = { resources: { r: { kind: 'set' } } }
const IDEMPOTENT: Header = { resources: { r: { kind: 'idempotent' }, q: { kind: 'idempotent' } } }

const fenced = (fence: number) => ({ output: { fence: String(fence) } })
const shared = (fence: number) => ({ input: { mode: 'shared' as const }, output: { fence: String(fence) } })
const permits = (weight: number, fence: number) => ({ input: { weight }, output: { fence: String(fence) } })

const PLANTS: readonly Plant[] = [
  {
    kind: 'overlap',
    what: 'two hold at a time',
    sound: (sketch) => sketch.hold('w1.1', 10, 20).hold('w2.1', 30, 40),
    plant: (sketch) => sketch.hold('w3.1', 35, 50),
  },
  {
    kind: 'overlap',
    what: 'one acquires what it holds, where it may not',
    sound: (sketch) => sketch.acquired('w1.1', 10),
    plant: (sketch) => sketch.acquired('w1.1', 20),
  },
  {
    kind: 'overlap',
    what: 'the second comes before the first can know that it is over',
    sound: (sketch) => sketch.acquired('w1.1', 10, { output: { until: 100 } }).note(50, 'w1.1', 'lost'),
    plant: (sketch) => sketch.hold('w2.1', 45, 60),
  },
  {
    kind: 'overlap',
    what: 'a holder is told that it still holds, after another held',
    sound: (sketch) => sketch.acquired('w1.1', 10, { output: { until: 100 } }).hold('w2.1', 110, 120),
    plant: (sketch) =>
      sketch.at(130, 'w1.1', 'assert', 'invoke').at(131, 'w1.1', 'assert', 'ok', { until: 200 }),
  },
  {
    kind: 'overlap',
    what: 'two write at a time',
    header: READ_WRITE,
    sound: (sketch) => sketch.hold('w1.1', 10, 20, fenced(1)).hold('w2.1', 30, 40, fenced(2)),
    plant: (sketch) => sketch.hold('w3.1', 35, 50, fenced(3)),
  },
  {
    kind: 'too-many-permits',
    what: 'four permits of three are given',
    header: SEMAPHORE,
    sound: (sketch) => sketch.hold('w1.1', 10, 50, permits(2, 1)).hold('w2.1', 20, 40, permits(1, 2)),
    plant: (sketch) => sketch.hold('w3.1', 30, 60, permits(1, 3)),
  },
  {
    kind: 'reader-beside-writer',
    what: 'one reads while another writes',
    header: READ_WRITE,
    sound: (sketch) =>
      sketch.hold('w1.1', 10, 50, shared(1)).hold('w2.1', 20, 40, shared(2)).acquired('w3.1', 60, fenced(3)),
    plant: (sketch) => sketch.hold('w4.1', 65, 70, shared(4)),
  },
  {
    kind: 'reentrancy',
    what: 'one releases once more than it acquired',
    header: REENTRANT,
    sound: (sketch) =>
      sketch
        .acquired('w1.1', 10, fenced(1))
        .acquired('w1.1', 20, fenced(1))
        .released('w1.1', 30)
        .released('w1.1', 40),
    plant: (sketch) => sketch.released('w1.1', 50),
  },
  {
    kind: 'reentrancy',
    what: 'one releases what another holds',
    sound: (sketch) => sketch.acquired('w1.1', 10),
    plant: (sketch) => sketch.released('w2.1', 20),
  },
  {
    kind: 'reentrancy',
    what: 'an inner acquisition has a fence of its own',
    header: REENTRANT,
    sound: (sketch) => sketch.acquired('w1.1', 10, fenced(1)),
    plant: (sketch) => sketch.acquired('w1.1', 20, fenced(2)),
  },
  {
    kind: 'fence-order',
    what: 'a later hold has a lower fence',
    header: FENCED,
    sound: (sketch) => sketch.hold('w1.1', 10, 20, fenced(5)).hold('w2.1', 30, 40, fenced(7)),
    plant: (sketch) => sketch.hold('w3.1', 50, 60, fenced(6)),
  },
  {
    kind: 'fence-order',
    what: 'a writer has a lower fence than a reader before it, while those of readers have no order',
    header: READ_WRITE,
    sound: (sketch) => sketch.hold('w1.1', 10, 20, shared(7)).hold('w2.1', 30, 40, shared(5)),
    plant: (sketch) => sketch.hold('w3.1', 50, 60, fenced(6)),
  },
  {
    kind: 'fence-reused',
    what: 'two holds have one fence',
    header: SEMAPHORE,
    sound: (sketch) => sketch.hold('w1.1', 10, 50, permits(1, 2)).hold('w2.1', 20, 40, permits(1, 1)),
    plant: (sketch) => sketch.hold('w3.1', 30, 60, permits(1, 2)),
  },
  {
    kind: 'granted-late',
    what: 'one is told that it holds when that is over',
    header: TIMED,
    sound: (sketch) => sketch.hold('w1.1', 50, 55, { output: { until: 60 } }),
    plant: (sketch) =>
      sketch.at(70, 'w2.1', 'acquire', 'invoke').at(150, 'w2.1', 'acquire', 'ok', { until: 120 }),
  },
  {
    kind: 'abort-late',
    what: 'one is told too late that it lost',
    header: TIMED,
    sound: (sketch) => sketch.acquired('w1.1', 10, { output: { until: 60 } }).note(75, 'w1.1', 'lost'),
    plant: (sketch) => sketch.acquired('w2.1', 110, { output: { until: 160 } }).note(190, 'w2.1', 'lost'),
  },
  {
    kind: 'abort-late',
    what: 'one thinks too long that it holds',
    header: TIMED,
    sound: (sketch) => sketch.acquired('w1.1', 10, { output: { until: 60 } }),
    plant: (sketch) => sketch.at(90, 'w1.1', 'release', 'invoke', { until: 60 }),
  },
  {
    kind: 'stuck-waiter',
    what: 'one waits with nobody in the way',
    header: TIMED,
    sound: (sketch) => sketch.hold('w1.1', 10, 20).hold('w3.1', 500, 510),
    plant: (sketch) => sketch.at(15, 'w2.1', 'acquire', 'invoke').at(490, 'w2.1', 'acquire', 'fail'),
  },
  {
    kind: 'stuck-waiter',
    what: 'one is never served',
    header: TIMED,
    sound: (sketch) => sketch.hold('w1.1', 10, 20).note(500, 'w1.1', 'queued'),
    plant: (sketch) => sketch.at(15, 'w2.1', 'acquire', 'invoke', { waitMs: null }),
  },
  {
    kind: 'unfair',
    what: 'one is overtaken by another who asked later',
    header: FAIR,
    sound: (sketch) =>
      sketch.at(10, 'w1.1', 'acquire', 'invoke').note(12, 'w1.1', 'queued').at(100, 'w1.1', 'acquire', 'ok'),
    plant: (sketch) => sketch.hold('w2.1', 30, 40),
  },
  {
    kind: 'refused-while-free',
    what: 'one is turned away with nobody there',
    sound: (sketch) => sketch.hold('w1.1', 10, 20),
    plant: (sketch) =>
      sketch
        .at(30, 'w2.1', 'acquire', 'invoke', { waitMs: 0 })
        .at(35, 'w2.1', 'acquire', 'fail', { error: 'ACQUIRE_TIMEOUT' }),
  },
  {
    kind: 'not-linearizable',
    what: 'one reads what was overwritten before',
    header: REGISTER,
    sound: (sketch) =>
      sketch
        .at(10, 'w1.1', 'write', 'invoke', { value: 'a' })
        .at(20, 'w1.1', 'write', 'ok')
        .at(30, 'w1.1', 'write', 'invoke', { value: 'b' })
        .at(40, 'w1.1', 'write', 'ok'),
    plant: (sketch) => sketch.at(50, 'w2.1', 'read', 'invoke').at(60, 'w2.1', 'read', 'ok', { value: 'a' }),
  },
  {
    kind: 'stale-write-accepted',
    what: 'a write with a fence from the past is taken',
    header: REGISTER,
    sound: (sketch) =>
      sketch
        .at(10, 'w1.1', 'write', 'invoke', { value: 'a', fence: '2' })
        .at(20, 'w1.1', 'write', 'ok')
        .at(22, 'w3.1', 'write', 'invoke', { value: 'c', fence: '1' })
        .at(24, 'w3.1', 'write', 'fail', { error: 'STALE_FENCE' }),
    plant: (sketch) =>
      sketch.at(30, 'w2.1', 'write', 'invoke', { value: 'b', fence: '1' }).at(40, 'w2.1', 'write', 'ok'),
  },
  {
    kind: 'lost-update',
    what: 'the last read lacks what was added',
    header: SET,
    sound: (sketch) =>
      sketch
        .at(10, 'w1.1', 'add', 'invoke', { value: 1 })
        .at(20, 'w1.1', 'add', 'ok')
        .at(90, 'w1.1', 'read', 'invoke')
        .at(99, 'w1.1', 'read', 'ok', { value: [1] }),
    plant: (sketch) => sketch.at(30, 'w2.1', 'add', 'invoke', { value: 2 }).at(40, 'w2.1', 'add', 'ok'),
  },
  {
    kind: 'lost-update',
    what: 'something is there twice',
    header: SET,
    sound: (sketch) => sketch.at(10, 'w1.1', 'add', 'invoke', { value: 1 }).at(20, 'w1.1', 'add', 'ok'),
    plant: (sketch) =>
      sketch.at(90, 'w1.1', 'read', 'invoke').at(99, 'w1.1', 'read', 'ok', { value: [1, 1] }),
  },
  {
    kind: 'lost-update',
    what: 'a read lacks what a later one has',
    header: SET,
    sound: (sketch) =>
      sketch
        .at(10, 'w1.1', 'add', 'invoke', { value: 1 })
        .at(20, 'w1.1', 'add', 'ok')
        .at(90, 'w1.1', 'read', 'invoke')
        .at(99, 'w1.1', 'read', 'ok', { value: [1] }),
    plant: (sketch) => sketch.at(30, 'w2.1', 'read', 'invoke').at(40, 'w2.1', 'read', 'ok', { value: [] }),
  },
  {
    kind: 'tripwire',
    what: 'something met another',
    sound: (sketch) => sketch.hold('w1.1', 10, 20),
    plant: (sketch) => sketch.note(15, 'w1.1', 'tripped', { target: 'w2.1' }),
  },
  {
    kind: 'executed-twice',
    what: 'there are two effects',
    header: IDEMPOTENT,
    sound: (sketch) => sketch.at(10, 'w1.1', 'add', 'invoke').at(11, 'w1.1', 'add', 'ok'),
    plant: (sketch) => sketch.at(20, 'w2.1', 'add', 'invoke').at(21, 'w2.1', 'add', 'ok'),
  },
  {
    kind: 'executed-twice',
    what: 'two get different answers',
    header: IDEMPOTENT,
    sound: (sketch) =>
      sketch
        .at(10, 'w1.1', 'execute', 'invoke', { input: 'pay 5' })
        .at(20, 'w1.1', 'execute', 'ok', { value: 'receipt 1' })
        .at(30, 'w2.1', 'execute', 'invoke', { input: 'pay 5' })
        .at(40, 'w2.1', 'execute', 'ok', { value: 'receipt 1' }),
    plant: (sketch) =>
      sketch
        .at(50, 'w3.1', 'execute', 'invoke', { input: 'pay 5' })
        .at(60, 'w3.1', 'execute', 'ok', { value: 'receipt 2' }),
  },
  {
    kind: 'never-executed',
    what: 'there is an answer without an effect, where effects are noted',
    header: IDEMPOTENT,
    sound: (sketch) =>
      sketch
        .at(10, 'w1.1', 'add', 'invoke', {}, 'q')
        .at(11, 'w1.1', 'add', 'ok', {}, 'q')
        .at(12, 'w1.1', 'execute', 'invoke', {}, 'q')
        .at(13, 'w1.1', 'execute', 'ok', {}, 'q'),
    plant: (sketch) =>
      sketch.at(20, 'w2.1', 'execute', 'invoke').at(30, 'w2.1', 'execute', 'ok', { value: 'done' }),
  },
  {
    kind: 'malformed',
    what: 'an answer has no call',
    sound: (sketch) => sketch.hold('w1.1', 10, 20),
    plant: (sketch) => sketch.at(30, 'w1.1', 'acquire', 'ok'),
  },
]

describe('every broken promise is noticed, under its own name', () => {
  test.each(PLANTS)('$kind: $what', ({ kind, header = MUTEX, sound, plant }) => {
    const sketch = new Sketch(header)
    sound(sketch)
    expect(checkHistory(sketch.lines)).toMatchObject({ valid: true, violations: [], undecided: [] })
    plant(sketch)
    const { valid, violations } = checkHistory(sketch.lines)
    expect(violations.map((violation) => violation.kind)).toEqual([kind])
    expect(violations[0]?.resource).toBe('r')
    expect(valid).toBe(false)
  })

  test('what is admitted is told, and does not count', () => {
    const sketch = new Sketch().hold('w1.1', 10, 20).hold('w2.1', 15, 30)
    const { valid, violations } = checkHistory(sketch.lines, {
      admit: ({ kind }) => (kind === 'overlap' ? 'one server may lose what it promised' : null),
    })
    expect(violations).toMatchObject([{ kind: 'overlap', admitted: 'one server may lose what it promised' }])
    expect(valid).toBe(true)
  })
})
