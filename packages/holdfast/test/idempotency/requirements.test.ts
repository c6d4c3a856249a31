// @module-tag effects
/**
 * Tests of idempotency begin with the number of the requirement that they stand for, and a page says where each is. Both are
 * compared here, so that neither can lose one without the other being wrong.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const REQUIREMENTS = Array.from({ length: 61 }, (_, index) => index + 1)
const TESTS = fileURLToPath(new URL('..', import.meta.url))
const THIS = 'idempotency/requirements.test.ts'
const PAGE = fileURLToPath(new URL('../../../../docs/idempotency-tests.md', import.meta.url))

/** A title of a test, of a group, or of a case that several stores share: `'47. 57. each adapter …'`. */
const TITLE = /(?:title:|\()\s*['"`]((?:[1-9]\d?\. )+)(?=\S)/g
/** A line of the table: the number, what is shown, the files, and more. */
const ROW = /^\| *([1-9]\d?) *\|([^|]+)\|([^|]+)\|([^|]+)\|([^|]*)\|$/gm

/** The files that have a test of each number. */
function filesByNumber(files: ReadonlyMap<string, string>): ReadonlyMap<number, readonly string[]> {
  const found = new Map<number, Set<string>>()
  for (const [path, text] of files) {
    for (const [, numbers = ''] of text.matchAll(TITLE)) {
      for (const number of numbers.match(/\d+/g) ?? []) {
        const paths = found.get(Number(number)) ?? new Set<string>()
        found.set(Number(number), paths.add(path))
      }
    }
  }
  return new Map([...found].map(([number, paths]) => [number, [...paths].toSorted()]))
}

function readTests(): ReadonlyMap<string, string> {
  const paths = readdirSync(TESTS, { recursive: true, encoding: 'utf8' })
  const sources = paths
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.ts') && path !== THIS)
  return new Map(sources.map((path) => [path, readFileSync(join(TESTS, path), 'utf8')]))
}

/** The files that the page names for each number, and how often it has that number. */
function filesOnPage(): readonly (readonly [number, readonly string[]])[] {
  const rows = [...readFileSync(PAGE, 'utf8').matchAll(ROW)]
  return rows.map(([, number, , files = '']) => [
    Number(number),
    [...files.matchAll(/`([^`]+)`/g)].map(([, path = '']) => path).toSorted(),
  ])
}

it('every requirement has a test, and the page says in which files', () => {
  const tests = filesByNumber(readTests())
  expect([...tests.keys()].toSorted((one, other) => one - other)).toEqual(REQUIREMENTS)
  expect(filesOnPage()).toEqual(REQUIREMENTS.map((number) => [number, tests.get(number)]))
})

it('would miss a test whose number was lost, and is not misled by other numbers', () => {
  const text = [
    `it('3. one', run)`,
    'it.skipIf(isOdd)(\n    `4. two ${n}`, run)',
    `title: '5. 6. three'`,
    `title:\n      "7. four"`,
    `it('9 is no number of ours', run)`,
    `it('2037-01-01 10. nor this', run)`,
    `// 11. nor this`,
  ].join('\n')
  expect([...filesByNumber(new Map([['a.test.ts', text]])).keys()]).toEqual([3, 4, 5, 6, 7])
})
