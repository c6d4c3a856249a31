import type { ResourceBook } from './calls.js'
import type { Violation } from './verdict.js'

/**
 * Whether something was done under a key that nobody had handed out by then. It can only be told where handing out is in
 * the history: without a single `issue`, keys are taken to be made by those who use them.
 */
export function forgedTokens(books: readonly ResourceBook[]): Violation[] {
  if (!books.some(({ calls }) => calls.some(({ f }) => f === 'issue'))) return []
  const violations: Violation[] = []
  for (const { name, calls } of books) {
    // One that may have been handed out was, as far as anybody can tell.
    const issues = calls.filter(({ f, outcome }) => f === 'issue' && outcome !== 'fail')
    const forged = calls.find(
      ({ f, outcome, ended }) =>
        f !== 'issue' && f !== 'read' && outcome === 'ok' && !issues.some(({ asked }) => asked <= ended),
    )
    if (forged === undefined) continue
    const { p, asked, ended } = forged
    violations.push({
      kind: 'forged-token-accepted',
      resource: name,
      at: ended,
      message: `${p} was accepted under a key that nobody had handed out.`,
      involved: [{ p, from: asked, to: ended }],
    })
  }
  return violations
}
