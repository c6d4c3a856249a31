// @module-tag secrets
import {
  AcquireTimeoutError,
  BackendUnavailableError,
  type ClaimView,
  DeadlockError,
  InvalidInputError,
  LockLostError,
  OutcomeUnknownError,
  ShapeConflictError,
  UnsupportedError,
} from 'holdfast'
import { describe, expect, test } from 'vitest'
import { checkLines } from '../src/check/view.js'
import { debugText, explain, UsageError } from '../src/failure.js'
import { escapeText } from '../src/format/escape.js'
import { findingLines } from '../src/format/findings.js'
import { deadlockLines, listLines, resourceLines, toJson } from '../src/format/views.js'
import { jsonLine, plainLine } from '../src/serve/log.js'

/** The characters that must not reach a terminal, as ranges. They are written down here apart from the code. */
const UNSAFE_RANGES: readonly (readonly [first: number, last: number, what: string])[] = [
  [0x00, 0x1f, 'control characters, with ESC'],
  [0x7f, 0x9f, 'DEL and the second set of control characters, with CSI and OSC'],
  [0xad, 0xad, 'soft hyphen'],
  [0x61c, 0x61c, 'Arabic letter mark'],
  [0x180e, 0x180e, 'Mongolian vowel separator'],
  [0x200b, 0x200f, 'zero width characters and direction marks'],
  [0x2028, 0x202e, 'line separators and changes of direction'],
  [0x2060, 0x206f, 'invisible operators and isolates'],
  [0xd800, 0xdfff, 'surrogates'],
  [0xfeff, 0xfeff, 'byte order mark'],
  [0xfff9, 0xfffb, 'annotations'],
  [0xe0000, 0xe007f, 'tags'],
]

function unsafeIn(text: string): string[] {
  const found = Array.from(text, (char) => char.codePointAt(0) ?? 0)
  return found
    .filter((code) => UNSAFE_RANGES.some(([first, last]) => code >= first && code <= last))
    .map((code) => code.toString(16))
}

/** Clears the screen, sets the title, rings, turns the direction and breaks the line. */
const HOSTILE = 'x\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\u{2028}\u{200b}\r\nholdfast: fake\u{e0041}y'

const context = { resource: HOSTILE, backend: HOSTILE, cause: new Error(HOSTILE) }
const claim: ClaimView = {
  ref: HOSTILE,
  owner: { host: HOSTILE, pid: 1, client: HOSTILE },
  note: HOSTILE,
  weight: 1,
  fence: 1n,
  ageMs: 1,
  remainingMs: 1,
}
const view = {
  resource: HOSTILE,
  shape: { kind: 'mutex', limit: 1 },
  holders: [claim],
  waiters: [claim],
} as const
const deadlock = { certain: true, cycle: [{ waiter: claim, waitsFor: HOSTILE, heldBy: claim }] }

describe('text of others', () => {
  test.each(UNSAFE_RANGES)('is escaped from %i to %i: %s', (first, last) => {
    for (let code = first; code <= last; code += 1) {
      expect(unsafeIn(escapeText(`a${String.fromCodePoint(code)}b`)), code.toString(16)).toEqual([])
    }
  })

  test.each([
    new UsageError(HOSTILE),
    new Error(HOSTILE),
    new AcquireTimeoutError(5_000, claim, context),
    new LockLostError('expired', context),
    new BackendUnavailableError(HOSTILE, context),
    new OutcomeUnknownError(HOSTILE, context),
    new UnsupportedError(HOSTILE, context),
    new DeadlockError(HOSTILE, context),
    new InvalidInputError('name', HOSTILE, HOSTILE),
    new ShapeConflictError({ kind: 'mutex', limit: 1 }, { kind: 'semaphore', limit: 2 }, context),
  ])('is escaped in the message of $constructor.name', (error) => {
    expect(unsafeIn(explain(error).message ?? '')).toEqual([])
    expect(unsafeIn(debugText(error).replaceAll('\n', ''))).toEqual([])
  })

  test.each([
    ['ls', listLines([view])],
    ['show', resourceLines(view)],
    ['ls --deadlocks', deadlockLines([deadlock])],
    ['show --json', [toJson({ ...view, deadlocks: [deadlock] })]],
    ['doctor', findingLines([{ level: 'danger', check: HOSTILE, found: HOSTILE, advice: HOSTILE }])],
    [
      'check',
      checkLines(
        {
          valid: false,
          violations: [{ kind: 'overlap', resource: HOSTILE, at: 1, message: HOSTILE, events: [] }],
          undecided: [HOSTILE],
          counts: { events: 1, acquired: 1, lost: 0, unknown: 0 },
        } as unknown as Parameters<typeof checkLines>[0],
        [{ name: HOSTILE, kind: 'mutex', callers: 1, calls: 1, acquired: 1 }],
        undefined,
      ),
    ],
    [
      'serve --json-log',
      [
        jsonLine({ kind: 'notice', at: '', level: 'error', text: HOSTILE }),
        jsonLine({
          kind: 'break',
          at: '',
          principal: HOSTILE,
          address: HOSTILE,
          name: HOSTILE,
          reason: HOSTILE,
          refs: [],
        }),
      ],
    ],
    ['serve', [escapeText(plainLine({ kind: 'notice', at: '', level: 'error', text: HOSTILE }) ?? '')]],
  ])('is escaped in the output of %s', (_command, lines) => {
    expect(lines.flatMap(unsafeIn)).toEqual([])
    expect(lines.join('\n')).toMatch(/202e/)
  })
})
