import { type Promises, processOf, type ResourceNote } from '../../history/format.js'
import type { Hold, ResourceBook } from '../calls.js'
import type { Surroundings } from '../surroundings.js'
import type { Violation } from '../verdict.js'
import { excludeEachOther } from './fences.js'

/** A history stamps a grant a little after the library counted from it. */
const STAMP_MICROS = 20_000

/** Whether the options and the calls of a lock kept what they promise beyond exclusion. */
export function brokenPromises(
  book: ResourceBook,
  note: ResourceNote,
  promises: Promises,
  around: Surroundings,
): Violation[] {
  return [
    ...releasedTooSoon(book, note, around),
    ...letInBetween(book, promises, around),
    ...(note.kind === 'read-write' ? readersThatWaited(book) : []),
  ]
}

/** A lock with a shortest time to hold went to the next holder before that was over. */
function releasedTooSoon(book: ResourceBook, note: ResourceNote, around: Surroundings): Violation[] {
  const inOrder = book.holds.filter(({ doubtful }) => !doubtful).sort((a, b) => a.from - b.from)
  return inOrder.flatMap((hold, index) => {
    const { minHoldMs } = hold
    if (minHoldMs === 0 || hold.ended !== 'released') return []
    const next = nextExcluded(inOrder, index, note)
    if (next === undefined || around.faults.touches(hold.asked, next.from)) return []
    const stood = around.standstillsOf(processOf(hold.p)).within(hold.asked, hold.from)
    if (next.from >= hold.from + minHoldMs * 1_000 - stood - STAMP_MICROS) return []
    const message = `${next.p} got what ${hold.p} was to hold for ${minHoldMs} ms, ${next.from - hold.from} µs after it had.`
    return [violation(book.name, next, hold, message)]
  })
}

function nextExcluded(inOrder: readonly Hold[], index: number, note: ResourceNote): Hold | undefined {
  const hold = inOrder[index]
  for (let at = index + 1; hold !== undefined && at < inOrder.length; at += 1) {
    const other = inOrder[at]
    if (other !== undefined && excludeEachOther(note, hold, other)) return other
  }
  return undefined
}

/** Another writer got in while a writer became a reader. */
function letInBetween(book: ResourceBook, promises: Promises, around: Surroundings): Violation[] {
  const writers = book.holds.filter(({ mode, doubtful }) => mode === 'exclusive' && !doubtful)
  return book.holds.flatMap((reader) => {
    if (!reader.downgraded) return []
    const before = writers.filter(({ p, from }) => p === reader.p && from < reader.from).at(-1)
    if (before === undefined) return []
    if (around.faults.touches(before.from - (promises.lossWithinMicros ?? 0), reader.from)) return []
    const other = writers.find(
      (each) => each !== before && each.from < reader.from && each.to > before.to && each.from >= before.from,
    )
    if (other === undefined) return []
    const message = `${other.p} wrote while ${reader.p} became a reader.`
    return [violation(book.name, other, reader, message)]
  })
}

/** If no caller writes, no reader waits for another one, whatever else goes wrong. */
function readersThatWaited(book: ResourceBook): Violation[] {
  const asked = book.calls.filter(({ f }) => f === 'acquire')
  if (asked.some(({ input }) => input?.mode !== 'shared')) return []
  return asked.flatMap(({ p, queued, asked: from }) =>
    queued === undefined
      ? []
      : [
          {
            kind: 'broken-promise',
            resource: book.name,
            at: queued,
            message: `${p} had to wait for a read lock although no caller writes.`,
            involved: [{ p, from, to: queued }],
          },
        ],
  )
}

function violation(resource: string, later: Hold, earlier: Hold, message: string): Violation {
  const involved = [earlier, later].map(({ p, from, to }) => ({ p, from, to }))
  return { kind: 'broken-promise', resource, at: later.from, message, involved }
}
