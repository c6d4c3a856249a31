import type { Micros } from '../history/format.js'
import type { Call, ResourceBook } from './calls.js'
import type { Violation, ViolationKind } from './verdict.js'

interface Element {
  added: Call | null
  maybeAdded: boolean
  /** When it was certainly there: its add had come back, or somebody had read it. */
  known: Micros
  /** Which reads had it, in order. */
  readonly reads: number[]
  copies: number
}

/**
 * Whether what was added to a set stayed in it. An element is lost if the last read does not have it although it had been
 * there before that read began; a read that lacks what a later one has is told as well. An element that is there twice,
 * or that nobody added, means that two wrote at the same time too.
 */
export function lostUpdates(book: ResourceBook): Violation[] {
  const reads = book.calls
    .filter(({ f, outcome, output }) => f === 'read' && outcome === 'ok' && Array.isArray(output?.value))
    .sort((a, b) => a.asked - b.asked)
  const elements = elementsOf(book, reads)
  const violations: Violation[] = []
  const tell = (at: Micros, message: string, calls: readonly Call[]) => {
    violations.push({
      kind: 'lost-update' satisfies ViolationKind,
      resource: book.name,
      at,
      message,
      involved: calls.map(({ p, asked, ended }) => ({ p, from: asked, to: ended })),
    })
  }
  const last = reads.at(-1)
  for (const [value, element] of elements) {
    const by = element.added === null ? '' : `, added by ${element.added.p},`
    const calls = element.added === null ? [] : [element.added]
    if (element.copies > 1) tell(last?.ended ?? 0, `${value}${by} is there ${element.copies} times.`, calls)
    if (element.added === null && !element.maybeAdded) {
      tell(element.known, `${value} is there, and nobody added it.`, calls)
      continue
    }
    const lastSeen = element.reads.at(-1) ?? -1
    if (last !== undefined && last.asked > element.known && lastSeen < reads.length - 1) {
      tell(last.ended, `${value}${by} is lost: the last read does not have it.`, [...calls, last])
      continue
    }
    const firstSure = firstAskedAfter(reads, element.known)
    const seenSince = element.reads.filter((read) => read >= firstSure).length
    if (lastSeen >= firstSure && seenSince < lastSeen - firstSure + 1) {
      tell(element.known, `${value}${by} was missing from a read, and was there later.`, calls)
    }
  }
  return violations
}

function elementsOf(book: ResourceBook, reads: readonly Call[]): Map<string, Element> {
  const elements = new Map<string, Element>()
  const elementOf = (value: unknown): Element => {
    const name = JSON.stringify(value)
    let element = elements.get(name)
    if (element === undefined) {
      element = { added: null, maybeAdded: false, known: Number.POSITIVE_INFINITY, reads: [], copies: 0 }
      elements.set(name, element)
    }
    return element
  }
  for (const call of book.calls) {
    if (call.f !== 'add' || call.outcome === 'fail') continue
    const element = elementOf(call.input?.value)
    if (call.outcome !== 'ok') element.maybeAdded = true
    else {
      element.added = call
      element.known = Math.min(element.known, call.ended)
    }
  }
  reads.forEach((read, index) => {
    const value = read.output?.value
    if (!Array.isArray(value)) return
    const copies = new Map<Element, number>()
    for (const item of value) {
      const element = elementOf(item)
      copies.set(element, (copies.get(element) ?? 0) + 1)
    }
    for (const [element, count] of copies) {
      element.reads.push(index)
      element.copies = Math.max(element.copies, count)
      element.known = Math.min(element.known, read.ended)
    }
  })
  return elements
}

function firstAskedAfter(reads: readonly Call[], moment: Micros): number {
  let low = 0
  let high = reads.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((reads[middle]?.asked ?? 0) <= moment) low = middle + 1
    else high = middle
  }
  return low
}
