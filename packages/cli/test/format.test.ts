import type { ClaimView, ResourceView } from 'holdfast'
import { describe, expect, test } from 'vitest'
import { formatDuration, parseDuration } from '../src/format/duration.js'
import { escapeText, redactCredentials } from '../src/format/escape.js'
import { layOutTable } from '../src/format/table.js'
import { listLines, resourceLines, standingsKey, toJson } from '../src/format/views.js'
import { displayWidth, padEnd, truncate } from '../src/format/width.js'
import { splitArguments } from '../src/program.js'

describe('durations', () => {
  test.each([
    ['0s', 0],
    ['500ms', 500],
    ['30s', 30_000],
    ['1.5m', 90_000],
    ['1h', 3_600_000],
    ['2d', 172_800_000],
  ])('%s is %i ms', (text, ms) => {
    expect(parseDuration(text)).toEqual({ ok: true, ms })
  })

  test.each(['', '30', '-1s', '1 s', '1w', 's', '1e3s', '25d', '99999999999999999999h', 'forever', '1s1s'])(
    '%j is refused',
    (text) => {
      expect(parseDuration(text).ok).toBe(false)
    },
  )

  test('a missing unit is named', () => {
    expect(parseDuration('30')).toMatchObject({ problem: 'a duration needs a unit: 30ms, 30s, 30m or 30h' })
  })

  test.each([
    [-5, '0ms'],
    [0.4, '0ms'],
    [999, '999ms'],
    [1_000, '1.0s'],
    [9_999, '9.9s'],
    [59_999, '59s'],
    [60_000, '1m00s'],
    [3_599_000, '59m59s'],
    [3_660_000, '1h01m'],
    [90_000_000, '1d01h'],
  ])('%i ms reads %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text)
  })
})

describe('escaping', () => {
  test.each([
    ['\u{1b}[31mred', '\\u{1b}[31mred'],
    ['a\nb\rc\td', 'a\\u{a}b\\u{d}c\\u{9}d'],
    ['\u{9b}31m', '\\u{9b}31m'],
    ['a\u{202e}b\u{2066}c\u{2069}', 'a\\u{202e}b\\u{2066}c\\u{2069}'],
    ['zero\u{200b}width\u{200d}\u{feff}\u{2060}', 'zero\\u{200b}width\\u{200d}\\u{feff}\\u{2060}'],
    ['lone \ud800', 'lone \\u{d800}'],
    ['line\u{2028}separator', 'line\\u{2028}separator'],
    ['tag\u{e0041}', 'tag\\u{e0041}'],
    ['filler\u{3164}', 'filler\\u{3164}'],
  ])('%j is shown as codes', (text, shown) => {
    expect(escapeText(text)).toBe(shown)
    expect(escapeText(shown)).toBe(shown)
  })

  test.each(['order:42', 'été', '名前', 'ключ', '❤️', 'a\\b "c"'])('%j stays as it is', (text) => {
    expect(escapeText(text)).toBe(text)
  })

  test('credentials are taken out of URLs', () => {
    expect(redactCredentials('at redis://anna:p@ss@host:1/0?token=abc&x=1.')).toBe(
      'at redis://***@host:1/0?token=***&x=1.',
    )
    expect(redactCredentials('sqlite:/tmp/a@b.db')).toBe('sqlite:/tmp/a@b.db')
  })
})

describe('tables', () => {
  test('wide and combining characters are counted as they are drawn', () => {
    expect(displayWidth('abc')).toBe(3)
    expect(displayWidth('名前')).toBe(4)
    expect(displayWidth('e\u{301}')).toBe(1)
    expect(padEnd('名', 4)).toBe('名  ')
    expect(truncate('名前名前', 5)).toBe('名前…')
    expect(truncate('abc', 3)).toBe('abc')
  })

  test('columns line up, and only those that may shrink do', () => {
    const columns = [
      { heading: 'NAME', shrinks: true },
      { heading: 'N', align: 'right' as const },
    ]
    const rows = [
      ['a'.repeat(40), '1'],
      ['b', '22'],
    ]
    expect(layOutTable(columns, rows)[2]).toBe(`b${' '.repeat(41)}22`)
    const narrow = layOutTable(columns, rows, 20)
    expect(narrow[1]).toBe(`${'a'.repeat(15)}…   1`)
    expect(narrow.every((line) => line.length <= 20)).toBe(true)
    expect(layOutTable(columns, rows, 3)[1]).toBe(`${'a'.repeat(9)}…   1`)
  })
})

function claim(over: Partial<ClaimView> = {}): ClaimView {
  return {
    ref: 'abc123',
    owner: { host: 'web-1', pid: 42, client: 'c1' },
    note: null,
    weight: 1,
    fence: 1_024n,
    ageMs: 61_000,
    remainingMs: 29_000,
    ...over,
  }
}

function view(over: Partial<ResourceView> = {}): ResourceView {
  return { resource: 'a', shape: { kind: 'mutex', limit: 1 }, holders: [claim()], waiters: [], ...over }
}

describe('views', () => {
  test('a lock that only waiters have has no first holder', () => {
    const line = listLines([view({ holders: [], waiters: [claim()] })])[1]
    expect(line).toBe('a     mutex        0        1  -               -     -')
  })

  test('shares are named after the kind of lock', () => {
    const readWrite = view({
      shape: { kind: 'read-write', limit: 100 },
      holders: [claim()],
      waiters: [claim({ weight: 100, fence: null, remainingMs: null })],
    })
    const lines = resourceLines(readWrite)
    expect(lines[3]).toMatch(/^holds .* 1024 {2}read /)
    expect(lines[4]).toMatch(/^waits 1 .* session +- {2}write /)
    const semaphore = view({ shape: { kind: 'semaphore', limit: 5 }, holders: [claim({ weight: 3 })] })
    expect(resourceLines(semaphore)[3]).toContain('3 of 5')
    expect(resourceLines(view())[2]).not.toContain('SHARE')
  })

  test('hosts, names and notes are escaped', () => {
    const owner = { host: 'h\u{1b}', pid: 1, client: 'c' }
    const lines = resourceLines(
      view({ resource: 'n\u{202e}', holders: [claim({ owner, note: 'x\u{200b}' })] }),
    )
    for (const unsafe of ['\u{1b}', '\u{202e}', '\u{200b}']) expect(lines.join('')).not.toContain(unsafe)
  })

  test('only standings make a change', () => {
    expect(standingsKey(view({ holders: [claim({ ageMs: 1, remainingMs: 1 })] }))).toBe(standingsKey(view()))
    expect(standingsKey(view({ holders: [], waiters: [claim()] }))).not.toBe(standingsKey(view()))
    expect(standingsKey(view({ holders: [claim({ fence: 2_048n })] }))).not.toBe(standingsKey(view()))
  })

  test('JSON has fences as texts, whole milliseconds, and escapes that every parser undoes', () => {
    const original = { resource: 'n\u{202e}\u{e0041}', fence: 2n ** 70n, ageMs: 1.6, weight: 1.5 }
    const text = toJson(original)
    expect(text).not.toMatch(/[\u{202e}\u{e0041}]/u)
    expect(JSON.parse(text)).toEqual({ ...original, fence: '1180591620717411303424', ageMs: 2 })
  })
})

describe('the command behind --', () => {
  test('is taken out for run only', () => {
    expect(splitArguments(['run', 'a', '--', 'ls', '--', '-x'])).toEqual({
      own: ['run', 'a'],
      childCommand: ['ls', '--', '-x'],
    })
    expect(splitArguments(['run', 'a'])).toEqual({ own: ['run', 'a'], childCommand: null })
    expect(splitArguments(['show', '--', '-a'])).toEqual({ own: ['show', '--', '-a'], childCommand: null })
  })
})
