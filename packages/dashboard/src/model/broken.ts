import { plural } from './words.js'

/** A text in which the name of a holder stands apart: its direction must not move the words around it. */
export interface BrokenWords {
  readonly before: string
  readonly who: string | null
  readonly after: string
}

/**
 * What came of a break. `who`: whose hold was meant; null: every holder. The dialog may have been open for a while, and
 * another holder may have the lock since then.
 */
export function brokenWords(answer: Readonly<Record<string, unknown>>, who: string | null): BrokenWords {
  const { broken, brokenTotal } = answer
  const shown = Array.isArray(broken) ? broken.length : 0
  const count = typeof brokenTotal === 'number' ? brokenTotal : shown
  if (count > 0) return plainly(`${plural(count, 'hold')} broken.`)
  if (who === null) return plainly('The lock was not held any more, so nothing was broken.')
  const after = ' had ended before. If the lock has another holder now, it keeps it.'
  return { before: 'Nothing was broken: the hold of ', who, after }
}

function plainly(before: string): BrokenWords {
  return { before, who: null, after: '' }
}
