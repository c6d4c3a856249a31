import { spawnSync } from 'node:child_process'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  compareTitles,
  judgeTitles,
  normalizeFile,
  normalizeTitle,
  testNamesOf,
} from '../../tools/test/compare-titles.mjs'
import { withRepository } from './planted-repository.js'

const command = resolve(import.meta.dirname, '../../tools/test/compare-titles.mjs')

function names(...lines: readonly string[]) {
  return lines.map((line) => {
    const [file = '', title = ''] = line.split(': ')
    return { file, title }
  })
}

describe('two lists of titles', () => {
  it('have kept, moved, removed and added titles', () => {
    const before = names('a: one', 'a: two', 'a: three')
    const after = names('a: one', 'b: two', 'b: four')
    expect(compareTitles(before, after)).toEqual({
      keptCount: 1,
      movedCount: 1,
      removed: names('a: three'),
      added: names('b: four'),
    })
  })

  it('count each of several tests with the same title', () => {
    const comparison = compareTitles(names('a: one', 'a: one', 'a: one'), names('a: one', 'b: one'))
    expect(comparison).toEqual({ keptCount: 1, movedCount: 1, removed: names('a: one'), added: [] })
  })
})

describe('titles with parts that differ from run to run', () => {
  it('are the same title, in the same file and in another', () => {
    const before = names('a: from port 1234', 'a: of client a3f09c1b', 'a: seed 1', 'a: seed 2')
    const after = names('a: from port 4321', 'b: of client 77ffab12', 'a: seed 1')
    expect(compareTitles(before, after)).toEqual({
      keptCount: 2,
      movedCount: 1,
      removed: names('a: seed 2'),
      added: [],
    })
  })
})

describe('removed titles', () => {
  const comparison = compareTitles(names('a: one', 'a: two', 'b: three', 'b: four'), names('b: four'))

  it('pass if each has a reason', () => {
    const { lines, hasFailed } = judgeTitles(comparison, [
      { match: '^a: ', reason: 'a is gone' },
      { match: 'three', reason: 'four covers it' },
    ])
    expect(hasFailed).toBe(false)
    expect(lines).toEqual([
      'kept 1, moved 0, added 0, removed 3',
      '  removed 2: a is gone',
      '  removed 1: four covers it',
    ])
  })

  it('fail if one has no reason', () => {
    const { lines, hasFailed } = judgeTitles(comparison, [{ match: '^a: ', reason: 'a is gone' }])
    expect(hasFailed).toBe(true)
    expect(lines.slice(-2)).toEqual(['Removed without a reason: 1', '  b: three'])
  })

  it('fail if a reason matches nothing', () => {
    const { lines, hasFailed } = judgeTitles(comparison, [
      { match: '', reason: 'all' },
      { match: 'three', reason: 'covered by another reason too' },
      { match: 'four', reason: 'still there' },
    ])
    expect(hasFailed).toBe(true)
    expect(lines.at(-1)).toBe('The reason matches no removed title: four (still there)')
  })
})

describe('what differs from run to run', () => {
  it.each([
    ['a client a3f09c1b of redis', 'a client HEX of redis'],
    ['record 123e4567-e89b-12d3-a456-426614174000', 'record UUID'],
    ['on redis://127.0.0.1:31606/0', 'on redis://127.0.0.1:PORT/0'],
    ['on localhost:8080, port 25395', 'on localhost:PORT, port PORT'],
    ['reads /tmp/holdfast-abc/data.db twice', 'reads PATH twice'],
    ['the folder holdfast-redis-aB3dE9', 'the folder holdfast-redis-RANDOM'],
    ['10000 requests (HOLDFAST_FUZZ_SEED=1234567)', '10000 requests (HOLDFAST_FUZZ_SEED=SEED)'],
    ['POST /v1/locks/a adds 20000000 with a decade', 'POST /v1/locks/a adds 20000000 with a decade'],
  ])('is replaced in %s', (title, expected) => {
    expect(normalizeTitle(title)).toBe(expected)
  })

  it('includes the folder of the repository', () => {
    const paths = ['/x/y/packages/cli/test/a.test.ts', '/x/test/tools/a.test.ts', 'test/a.test.ts']
    expect(paths.map(normalizeFile)).toEqual([
      'packages/cli/test/a.test.ts',
      'test/tools/a.test.ts',
      'test/a.test.ts',
    ])
  })
})

describe('reports', () => {
  const ours = { files: [{ path: 'test/a.test.ts', tests: [{ title: 'suite > one' }] }] }
  const theirs = {
    testResults: [
      {
        name: '/x/test/a.test.ts',
        assertionResults: [
          { ancestorTitles: ['suite'], title: 'one', fullName: 'suite one' },
          { ancestorTitles: [], title: 'two', fullName: 'two' },
        ],
      },
    ],
  }

  it('are read in each format', () => {
    const one = { file: 'test/a.test.ts', title: 'suite > one' }
    expect(testNamesOf(ours)).toEqual([one])
    expect(testNamesOf({ plan: 'full', tests: ours })).toEqual([one])
    expect(testNamesOf(theirs)).toEqual([one, { file: 'test/a.test.ts', title: 'two' }])
    expect(() => testNamesOf({ results: [] })).toThrow('A report must have')
  })

  it('are compared by the command, which fails for a title that was removed without a reason', () => {
    const files = {
      'before.json': JSON.stringify(theirs),
      'after.json': JSON.stringify(ours),
      'reasons.json': JSON.stringify([{ match: 'test/a\\.test\\.ts: two', reason: 'no longer true' }]),
    }
    withRepository(files, (root) => {
      const at = (name: string) => join(root, name)
      const run = (...args: string[]) => spawnSync(process.execPath, [command, ...args], { encoding: 'utf8' })
      const without = run(at('before.json'), at('after.json'))
      expect(without.stdout).toContain('  test/a.test.ts: two')
      expect(without.status).toBe(1)
      const explained = run(at('before.json'), at('after.json'), '--reasons', at('reasons.json'))
      expect(explained.stdout).toContain('removed 1: no longer true')
      expect(explained.status).toBe(0)
      expect(run(at('before.json')).status).toBe(2)
      expect(run(at('before.json'), at('missing.json')).status).toBe(2)
    })
  })
})
