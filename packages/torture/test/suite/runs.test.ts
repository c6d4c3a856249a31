import { expect, test } from 'vitest'
import type { Violation, ViolationKind } from '../../src/check/verdict.js'
import { isGood, type SuiteResult } from '../../src/suite/runs.js'
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

test('a run that found lateness has failed, and is not run again', () => {
  expect(isGood(ran('stuck-waiter'))).toBe(false)
  expect(isGood(ran(['overlap', 'The clock was set.']))).toBe(true)
  expect(tableLines([ran('leak')]).join('\n')).toContain('FAILED')
})

test('a stage that could not be run has failed', () => {
  const { store, recipe } = ran()
  expect(isGood({ kind: 'broke', store, recipe, reason: '', repeat: '' })).toBe(false)
})

test('the table says why a run broke', () => {
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
