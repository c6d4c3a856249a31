import type { Promises, ResourceNote } from '../../history/format.js'
import type { Call, ResourceBook } from '../calls.js'
import type { Violation } from '../verdict.js'

/**
 * Whether anybody released what it had not acquired as often: somebody else's hold, or one too many of its own. And
 * whether the inner acquisitions of a hold had the fence of the outer one.
 */
export function reentrancyViolations(
  book: ResourceBook,
  note: ResourceNote,
  promises: Promises,
): Violation[] {
  const violations: Violation[] = []
  /** Acquisitions that may have worked, of each caller. What it releases later may be one of these. */
  const unknown = new Map<string, number>()
  for (const call of book.calls) {
    if (call.f === 'acquire') {
      if (call.outcome === 'info' || call.outcome === 'open') {
        unknown.set(call.p, (unknown.get(call.p) ?? 0) + 1)
      }
      if (note.reentrant === true && promises.fences === true) {
        const other = otherFence(book, call)
        if (other !== null) violations.push(other)
      }
    } else if (call.f === 'release' && call.outcome === 'ok' && call.hold === -1) {
      const left = unknown.get(call.p) ?? 0
      if (left > 0) unknown.set(call.p, left - 1)
      else violations.push(notItsOwn(book.name, call))
    }
  }
  return violations
}

function notItsOwn(resource: string, { p, asked, ended }: Call): Violation {
  return {
    kind: 'reentrancy',
    resource,
    at: ended,
    message: `${p} released what it did not hold, and was told that it worked.`,
    involved: [{ p, from: asked, to: ended }],
  }
}

function otherFence(book: ResourceBook, { p, outcome, output, hold: number, ended }: Call): Violation | null {
  const hold = book.holds[number]
  const fence = output?.fence
  if (outcome !== 'ok' || hold === undefined || hold.fence === null || fence === undefined) return null
  if (BigInt(fence) === hold.fence) return null
  return {
    kind: 'reentrancy',
    resource: book.name,
    at: ended,
    message: `${p} acquired again what it held under fence ${hold.fence}, and got fence ${fence}.`,
    involved: [{ p, from: hold.from, to: ended }],
  }
}
