import { type Micros, type Promises, processOf } from '../../history/format.js'
import type { Hold, ResourceBook } from '../calls.js'
import type { Surroundings } from '../surroundings.js'
import type { Violation } from '../verdict.js'

/**
 * Whether holders knew in time that they had to stop. Nobody can be told anything while its process stands still, so
 * that such time does not count.
 */
export function promptnessViolations(
  book: ResourceBook,
  promises: Promises,
  around: Surroundings,
): Violation[] {
  const bound = promises.abortWithinMicros
  const violations: Violation[] = []
  for (const hold of book.holds) {
    const late = grantedLate(hold, bound ?? 0, around)
    if (late !== null) violations.push(late)
  }
  if (bound === undefined) return violations
  for (const { p, at, until, what } of statementsOf(book)) {
    const late = lateness(p, until, at, around)
    if (late <= bound) continue
    violations.push({
      kind: 'abort-late',
      resource: book.name,
      at,
      message: `${p} ${what} ${late} µs after it should have stopped, and ${bound} µs are promised.`,
      involved: [{ p, from: until, to: at }],
    })
  }
  return violations
}

/** How long after `until` it is, not counting the time in which the process stood still. */
function lateness(p: string, until: Micros, at: Micros, around: Surroundings): Micros {
  if (at <= until) return 0
  return at - until - around.standstillsOf(processOf(p)).within(until, at)
}

function grantedLate(hold: Hold, slack: Micros, around: Surroundings): Violation | null {
  const until = hold.granted
  if (until === null) return null
  const late = lateness(hold.p, until, hold.from, around)
  if (late <= slack) return null
  return {
    kind: 'granted-late',
    resource: hold.resource,
    at: hold.from,
    message: `${hold.p} was told that it held ${late} µs after that had ended.`,
    involved: [{ p: hold.p, from: hold.asked, to: hold.from }],
  }
}

interface Statement {
  readonly p: string
  readonly at: Micros
  readonly until: Micros
  readonly what: string
}

/** The moments at which a holder still thought that it held, or was told that it did not. */
function* statementsOf(book: ResourceBook): Iterable<Statement> {
  for (const { p, f, outcome, asked, ended, input, output } of book.calls) {
    if (f === 'release' && input?.until !== undefined) {
      yield { p, at: asked, until: input.until, what: 'let go without having been told to stop,' }
    } else if ((f === 'assert' || f === 'extend') && outcome === 'ok' && output?.until !== undefined) {
      yield { p, at: ended, until: output.until, what: `was told by ${f} that it still held` }
    }
  }
  for (const { p, at, until } of book.losses) {
    if (until !== null) yield { p, at, until, what: 'was told that it was over' }
  }
}
