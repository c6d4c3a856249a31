// @module-tag limits
import { expect, test } from 'vitest'
import { until } from '../../../../test/support/wait.js'
import { FairTurns } from '../../src/security/fair-turns.js'
import { ListLimits } from '../../src/security/lists.js'
import { ANYBODY } from '../../src/security/principal.js'

test('a caller with one request is served before the rest of a caller with many', async () => {
  const turns = new FairTurns()
  const served: string[] = []
  for (let at = 0; at < 100; at += 1) turns.enter('many', () => served.push('many'))
  turns.enter('one', () => served.push('one'))
  expect(served).toEqual(['many', 'one'])
  expect(turns.waiting).toBe(99)
  await until('all requests', () => served.length === 101)
  expect(turns.waiting).toBe(0)
})

test('requests of one caller keep their order', async () => {
  const turns = new FairTurns()
  const served: number[] = []
  for (let at = 0; at < 50; at += 1) turns.enter('a', () => served.push(at))
  await until('all requests', () => served.length === 50)
  expect(served).toEqual(Array.from({ length: 50 }, (_, at) => at))
})

test('a large answer takes the place of later requests of its caller, and of nobody else', async () => {
  const turns = new FairTurns()
  const served: string[] = []
  turns.charge('large', 1_024 * 1_024)
  turns.enter('large', () => served.push('large'))
  for (let at = 0; at < 20; at += 1) turns.enter('small', () => served.push('small'))
  await until('all requests', () => served.length === 21)
  expect(served.indexOf('large')).toBe(20)
})

test('lists of one token are made one after the other, and those of another beside them', async () => {
  const lists = new ListLimits({ listsMax: 16, listsPerPrincipalMax: 8 })
  const open: string[] = []
  const ends: (() => void)[] = []
  const make = (name: string): Promise<void> =>
    lists.make({ ...ANYBODY, name }, () => {
      open.push(name)
      return new Promise((resolve) => ends.push(resolve))
    })
  const made = [make('a'), make('a'), make('b')]
  await until('the lists', () => open.length === 2)
  expect(open).toEqual(['a', 'b'])
  ends[0]?.()
  await until('the second list', () => open.length === 3)
  expect(open).toEqual(['a', 'b', 'a'])
  for (const end of ends) end()
  await Promise.all(made)
})
