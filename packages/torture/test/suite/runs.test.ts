import { expect, test } from 'vitest'
import type { Violation, ViolationKind } from '../../src/check/verdict.js'
import { isAboutTime, type SuiteResult } from '../../src/suite/runs.js'
import { tableLines } from '../../src/suite/table.js'

function ran(...found: readonly (ViolationKind | readonly [ViolationKind, string])[]): SuiteResult {
  const violations = found.map((each): Violation => {
    const [kind, admitted] = typeof each === 'string' ? [each] : each
    const violation = { kind, resource: 'a', at: 0, message: 'x' }
    return admitted === undefined ? violation : { ...violation, admitted }
  })
  const valid = violations.every(({ admitted }) => admitted !== undefined)
  const verdict = {
    valid,
    violations,
    undecided: [],
    counts: { events: 0, acquired: 0, lost: 0, unknown: 0 },
  }
  const outcome = { names: [], faults: [], verdict } as unknown as Extract<
    SuiteResult,
    { kind: 'ran' }
  >['outcome']
  return { kind: 'ran', store: 'redis', recipe: 'line', outcome }
}

test('only what is about time is seen again', () => {
  expect(isAboutTime(ran('stuck-waiter', 'leak'))).toBe(true)
  expect(isAboutTime(ran('abort-late', ['overlap', 'The clock was set.']))).toBe(true)
  expect(isAboutTime(ran('stuck-waiter', 'overlap'))).toBe(false)
  expect(isAboutTime(ran('unexpected-error'))).toBe(false)
  expect(isAboutTime(ran())).toBe(false)
})

test('a stage that could not be run is, and one that is not installed is not', () => {
  const { store, recipe } = ran()
  expect(isAboutTime({ kind: 'broke', store, recipe, reason: '', repeat: '' })).toBe(true)
  expect(isAboutTime({ kind: 'not run', store, recipe, reason: '', required: true })).toBe(false)
})

test('the table says so', () => {
  const again: SuiteResult = { ...(ran() as Extract<SuiteResult, { kind: 'ran' }>), before: ['leak'] }
  expect(tableLines([again]).join('\n')).toContain('ok, seen again alone after leak')
})

test('the table says why a run broke, also where it is seen again later', () => {
  const broke: SuiteResult = {
    kind: 'broke',
    store: 'etcd',
    recipe: 'lease',
    reason: 'no port\u001b[2J is free',
    repeat: 'again',
  }
  const text = tableLines([broke]).join('\n')
  expect(text).toContain('BROKE: no port')
  expect(text).not.toContain('\u001b')
})
