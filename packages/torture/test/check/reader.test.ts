import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkFiles } from '../../src/check/check.js'
import { readHistory } from '../../src/history/reader.js'
import { MemoryHistory, measureOffset, microsAt, nowMicros, Recorder } from '../../src/history/recorder.js'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-history-'))
})
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

function file(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

describe('what is written can be read', () => {
  test('in the order of time, whatever file it is from', () => {
    let now = 0
    const paths = ['a.jsonl', 'b.jsonl'].map((name) => join(folder, name))
    const recorders = paths.map((path) => new Recorder(path, () => now))
    for (const recorder of recorders) recorder.header({ writer: 'w', promises: { fences: true } })
    for (now = 1; now <= 10; now++) {
      const odd = 'näme "\\\n\u{2028}\u{1b}'
      recorders[now % 2]?.event('acquire', 'invoke', `w${now % 2}.1`, odd, { waitMs: now })
      recorders[now % 2]?.event('acquire', 'fail', `w${now % 2}.1`, odd)
    }
    for (const recorder of recorders) {
      recorder.close()
      recorder.event('acquire', 'invoke', 'late.1', 'dropped')
    }
    const { events, headers, malformed } = readHistory(paths)
    expect(malformed).toEqual([])
    expect(headers).toHaveLength(2)
    expect(events).toHaveLength(20)
    expect(events.map(({ t }) => t)).toEqual([1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10])
    expect(events[0]).toEqual({
      t: 1,
      p: 'w1.1',
      f: 'acquire',
      type: 'invoke',
      k: 'näme "\\\n\u{2028}\u{1b}',
      v: { waitMs: 1 },
    })
    expect(events.map(({ type }) => type).slice(0, 4)).toEqual(['invoke', 'fail', 'invoke', 'fail'])
  })

  test('a history in memory has the same lines', () => {
    const history = new MemoryHistory(() => 5)
    history.header({ writer: 'lab' })
    history.event('lost', 'note', 'w1.1', 'r', { error: 'expired' })
    expect(history.lines).toEqual([
      { format: 'holdfast-history/1', writer: 'lab' },
      { t: 5, p: 'w1.1', f: 'lost', type: 'note', k: 'r', v: { error: 'expired' } },
    ])
  })

  test('the clock of deadlines and the clock of histories are one', () => {
    const before = nowMicros()
    const at = microsAt(performance.now())
    const after = nowMicros()
    expect(at).toBeGreaterThanOrEqual(before - 1_000)
    expect(at).toBeLessThanOrEqual(after + 1_000)
  })

  test('a process that is stopped between two readings of them does not set them apart', () => {
    const beganMicros = 7_000_000
    let now = 0
    let readings = 0
    const ownMs = (): number => {
      readings += 1
      // All but one of the readings come late, and one of them very late.
      now += readings === 5 ? 30_000 : readings === 9 ? 0 : 400
      return now / 1_000
    }
    expect(measureOffset(() => now + beganMicros, ownMs)).toBeCloseTo(beganMicros, 3)
  })
})

const GOOD = '{"t":1,"p":"w1.1","f":"acquire","type":"invoke","k":"r"}\n'

describe('what is not a history', () => {
  test('half a line at the end is what a killed process was writing', () => {
    const { events, malformed } = readHistory([file('torn.jsonl', `${GOOD}{"t":2,"p":"w1.1","f":"acq`)])
    expect(events).toHaveLength(1)
    expect(malformed).toEqual([])
  })

  test.each([
    ['{"t":2,"p', /not JSON/],
    ['[]', /not a JSON object/],
    ['null', /not a JSON object/],
    ['{"p":"w","f":"acquire","type":"invoke","k":"r"}', /"t"/],
    ['{"t":"2","p":"w","f":"acquire","type":"invoke","k":"r"}', /"t"/],
    ['{"t":1e999,"p":"w","f":"acquire","type":"invoke","k":"r"}', /"t"/],
    ['{"t":2,"p":7,"f":"acquire","type":"invoke","k":"r"}', /"p"/],
    ['{"t":2,"p":"w","f":"acquire","type":"invoke"}', /"k"/],
    ['{"t":2,"p":"w","f":"constructor","type":"invoke","k":"r"}', /"f" is not known/],
    ['{"t":2,"p":"w","f":"acquire","type":"note","k":"r"}', /"type"/],
    ['{"t":2,"p":"w","f":"lost","type":"ok","k":"r"}', /is a note/],
    ['{"t":2,"p":"w","f":"acquire","type":"ok","k":"r","v":[]}', /"v"/],
    ['{"t":2,"p":"w","f":"acquire","type":"ok","k":"r","v":{"fence":7}}', /"fence"/],
    ['{"t":2,"p":"w","f":"acquire","type":"ok","k":"r","v":{"fence":"0x7"}}', /"fence"/],
    ['{"t":2,"p":"w","f":"acquire","type":"ok","k":"r","v":{"until":"soon"}}', /"until"/],
    ['{"t":2,"p":"w","f":"acquire","type":"invoke","k":"r","v":{"weight":-1}}', /"weight"/],
    ['{"t":2,"p":"w","f":"acquire","type":"invoke","k":"r","v":{"mode":"any"}}', /"mode"/],
    ['{"t":2,"p":"w","f":"read","type":"ok","k":"r","v":{"value":{}}}', /"value"/],
    ['{"t":2,"p":"w","f":"read","type":"fail","k":"r","v":{"error":{}}}', /"error"/],
    ['{"format":"holdfast-history/9"}', /"format"/],
    ['{"format":"holdfast-history/1","resources":{"r":{"kind":"lock"}}}', /kind/],
    ['{"format":"holdfast-history/1","resources":{"r":{"kind":"semaphore","limit":0}}}', /limit/],
    ['{"format":"holdfast-history/1","promises":{"fences":"yes"}}', /"fences"/],
    ['{"format":"holdfast-history/1","promises":{"servedWithinMicros":"1"}}', /"servedWithinMicros"/],
  ])('%s is told with its place, and the rest is judged', (line, problem) => {
    const path = file('odd.jsonl', `${GOOD}\n${line}\n${GOOD.replace('"t":1', '"t":3').replace('w1', 'w2')}`)
    const { events, malformed } = readHistory([path])
    expect(events).toHaveLength(2)
    expect(malformed).toMatchObject([{ file: path, line: 3 }])
    expect(malformed[0]?.problem).toMatch(problem)
    const verdict = checkFiles([path])
    expect(verdict.valid).toBe(false)
    expect(verdict.violations).toMatchObject([{ kind: 'malformed' }])
    expect(verdict.violations[0]?.message).toContain('odd.jsonl:3: ')
  })

  test('a name that is also one of an object of JavaScript is only a name', () => {
    const name = '__proto__'
    const path = file(
      'names.jsonl',
      `{"format":"holdfast-history/1","resources":{"${name}":{"kind":"semaphore","limit":2}}}\n` +
        ['w1.1', 'constructor']
          .flatMap((p, index) => [
            `{"t":${index},"p":"${p}","f":"acquire","type":"invoke","k":"${name}"}\n`,
            `{"t":${index + 5},"p":"${p}","f":"acquire","type":"ok","k":"${name}"}\n`,
          ])
          .join(''),
    )
    expect(checkFiles([path])).toMatchObject({ valid: true, counts: { acquired: 2 } })
  })

  test('of a file of something else only the beginning is told', () => {
    const { malformed } = readHistory([file('other.jsonl', 'what is this?\n'.repeat(100_000))])
    expect(malformed).toHaveLength(20)
  })

  test('a file that cannot be read is an error with its path', () => {
    expect(() => readHistory([join(folder, 'missing.jsonl')])).toThrow(/missing\.jsonl/)
  })
})
