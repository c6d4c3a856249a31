import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Bench, requireBuild } from './command.js'

let bench: Bench
beforeAll(() => {
  requireBuild()
  bench = new Bench()
})
afterAll(async () => {
  await bench.clear()
})

function written(name: string, ...lines: readonly (object | string)[]): string {
  const path = join(bench.folder, name)
  const text = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line)))
  writeFileSync(path, text.map((line) => `${line}\n`).join(''))
  return path
}

function hold(p: string, from: number, to: number, k = 'invoice:7') {
  return [
    { t: from - 1, p, f: 'acquire', type: 'invoke', k },
    { t: from, p, f: 'acquire', type: 'ok', k },
    { t: to, p, f: 'release', type: 'invoke', k },
    { t: to + 1, p, f: 'release', type: 'ok', k },
  ]
}

describe('holdfast check', () => {
  test('of a sound history is 0, and says what was looked at', async () => {
    const first = written('sound-1.jsonl', ...hold('w1.1', 10, 20))
    const second = written('sound-2.jsonl', ...hold('w2.1', 30, 40))
    // What a killed process was writing when it died.
    appendFileSync(second, '{"t":50,"p":"w2.1","f":"acq')
    const { exitCode, stdout, stderr } = await bench.holdfast(['check', first, second])
    expect(stderr).toBe('')
    expect(stdout).toMatch(/^invoice:7 +mutex +2 +4 +2 +valid$/m)
    expect(stdout).toMatch(/^8 events, 2 acquired, 0 lost, 0 unknown\.\nVALID\.$/m)
    expect(exitCode).toBe(0)
  })

  test('of a broken one is 1, and says who, when and how', async () => {
    const file = written('broken.jsonl', ...hold('w1.1', 10, 20), ...hold('w2.1', 15, 40))
    const { exitCode, stdout } = await bench.holdfast(['check', file])
    expect(stdout).toMatch(/^invoice:7 .* overlap$/m)
    expect(stdout).toContain(
      'overlap invoice:7 at 15 µs\n    w2.1 held at the same time as w1.1, for 5 µs.\n',
    )
    expect(stdout).toContain('INVALID: 1 violation.')
    expect(exitCode).toBe(1)
    const json = await bench.holdfast(['check', '--json', file])
    expect(json.exitCode).toBe(1)
    expect(JSON.parse(json.stdout)).toMatchObject({
      valid: false,
      violations: [{ kind: 'overlap', resource: 'invoice:7', at: 15 }],
      undecided: [],
      counts: { events: 8, acquired: 2 },
      resources: [{ name: 'invoice:7', kind: 'mutex', callers: 2, calls: 4, acquired: 2 }],
    })
  })

  test('a model that is asked for takes the place of what the header says', async () => {
    const header = {
      format: 'holdfast-history/1',
      resources: { 'invoice:7': { kind: 'semaphore', limit: 2 } },
    }
    const file = written('two.jsonl', header, ...hold('w1.1', 10, 20), ...hold('w2.1', 15, 40))
    expect((await bench.holdfast(['check', file])).exitCode).toBe(0)
    expect((await bench.holdfast(['check', '--model', 'mutex', file])).exitCode).toBe(1)
  })

  test('what Knossos writes is read as well', async () => {
    const file = written(
      'knossos.edn',
      '{:process 0, :type :invoke, :f :acquire, :value nil}',
      '{:process 0, :type :ok, :f :acquire, :value nil}',
      '{:process 1, :type :invoke, :f :acquire, :value nil}',
      '{:process 1, :type :ok, :f :acquire, :value nil}',
    )
    const { exitCode, stdout } = await bench.holdfast(['check', file])
    expect(stdout).toMatch(/INVALID/)
    expect(exitCode).toBe(1)
  })

  test('a line that is none is told with its place, and nothing of it reaches the terminal raw', async () => {
    const name = 'evil\u{1b}]0;x\u{7}\u{202e}'
    const file = written('odd.jsonl', '{"t":', ...hold(name, 10, 20, name), ...hold('w2.1', 15, 40, name))
    const { exitCode, stdout } = await bench.holdfast(['check', file])
    expect(stdout).toMatch(/malformed\n {4}.*odd\.jsonl:1: it is not JSON\./)
    expect(stdout).toMatch(/overlap evil/)
    for (const unsafe of ['\u{1b}', '\u{7}', '\u{202e}']) expect(stdout).not.toContain(unsafe)
    expect(exitCode).toBe(1)
    const json = await bench.holdfast(['check', '--json', file])
    for (const unsafe of ['\u{1b}', '\u{7}', '\u{202e}']) expect(json.stdout).not.toContain(unsafe)
  })

  test.each([
    [['check'], /missing required argument 'file'/],
    [['check', 'no-such-file.jsonl'], /no-such-file\.jsonl does not exist/],
    [['check', '.'], /folder/],
    [['check', '--model', 'lock', 'a'], /--model is one of mutex, owner-mutex/],
  ])('%j is 64', async (args, message) => {
    const { exitCode, stdout, stderr } = await bench.holdfast(args)
    expect(stderr).toMatch(/^holdfast: [^\n]*\n$/)
    expect(stderr).toMatch(message)
    expect(stdout).toBe('')
    expect(exitCode).toBe(64)
  })

  test('an empty file is no history', async () => {
    const { exitCode, stderr } = await bench.holdfast(['check', written('empty.jsonl')])
    expect(stderr).toContain('there is nothing in these files')
    expect(exitCode).toBe(64)
  })
})
