import { plural } from './words.js'

/**
 * What came of a break. `who`: whose hold was meant; null: every holder. The dialog may have been open for a while, and
 * another holder may have the lock since then.
 */
export function brokenText(answer: Readonly<Record<string, unknown>>, who: string | null): string {
  const { broken, brokenTotal } = answer
  const shown = Array.isArray(broken) ? broken.length : 0
  const count = typeof brokenTotal === 'number' ? brokenTotal : shown
  if (count > 0) return `${plural(count, 'hold')} broken.`
  if (who === null) return 'The lock was not held any more, so nothing was broken.'
  return `Nothing was broken: the hold of ${who} had ended before. If the lock has another holder now, it keeps it.`
}
