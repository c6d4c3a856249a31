import { describe, expect, test } from 'vitest'
import { booksOf } from '../../src/check/books.js'
import { findOrder, type ModelName } from '../../src/check/linear/linearizability.js'
import { exclusionViolations } from '../../src/check/sweep/exclusion.js'
import { fenceViolations } from '../../src/check/sweep/fences.js'
import { reentrancyViolations } from '../../src/check/sweep/reentrancy.js'
import type { HistoryEvent, Promises, ResourceNote } from '../../src/history/format.js'
import { historyOf } from '../../src/history/reader.js'
import { lockHistory, seeded } from './generator.js'

const HISTORIES = 20_000

interface Subject {
  readonly model: ModelName
  readonly note: ResourceNote
  readonly promises: Promises
}

const SUBJECTS: readonly Subject[] = [
  { model: 'owner-mutex', note: { kind: 'mutex' }, promises: {} },
  { model: 'lease-mutex', note: { kind: 'mutex' }, promises: {} },
  { model: 'fenced', note: { kind: 'mutex' }, promises: { fences: true } },
  { model: 'reentrant', note: { kind: 'mutex', reentrant: true }, promises: {} },
  { model: 'reentrant-fenced', note: { kind: 'mutex', reentrant: true }, promises: { fences: true } },
  { model: 'semaphore', note: { kind: 'semaphore', limit: 3 }, promises: {} },
  { model: 'read-write', note: { kind: 'read-write' }, promises: {} },
]

function sweepSaysValid(events: readonly HistoryEvent[], { note, promises }: Subject): boolean {
  const book = booksOf(events, () => note).resources.get('r')
  if (book === undefined) return true
  const found = [
    ...exclusionViolations('r', note, book.holds),
    ...reentrancyViolations(book, note, promises),
    ...(promises.fences === true ? fenceViolations('r', note, book.holds) : []),
  ]
  return found.length === 0
}

describe('the sweep and the search agree', () => {
  test.each(SUBJECTS)('on histories of a $model', (subject) => {
    const each = Math.ceil(HISTORIES / SUBJECTS.length)
    let valid = 0
    let invalid = 0
    for (let seed = 1; seed <= each; seed++) {
      const lines = lockHistory(seeded(seed * 7_919), subject.note, subject.promises)
      const { events } = historyOf(lines)
      const swept = sweepSaysValid(events, subject)
      const book = booksOf(events, () => subject.note).resources.get('r')
      const searched = book === undefined ? 'valid' : findOrder(subject.model, book, subject.note).verdict
      if ((searched === 'valid') !== swept || searched === 'undecided') {
        const story = lines.map((line) => JSON.stringify(line)).join('\n')
        expect.fail(`seed ${seed}: the sweep says ${swept}, the search ${searched}:\n${story}`)
      }
      if (swept) valid++
      else invalid++
    }
    console.log(`${subject.model}: ${valid} valid and ${invalid} invalid histories, all judged alike`)
    expect(valid).toBeGreaterThan(each / 5)
    expect(invalid).toBeGreaterThan(each / 5)
  })
})
