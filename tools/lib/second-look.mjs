// @ts-check

/**
 * @typedef {object} Failure
 * @property {string} file
 * @property {string} title what failed: a test, or a hook of a group or of the whole file
 * @property {string} message
 */

/**
 * @typedef {object} Run
 * @property {readonly Failure[]} failures
 * @property {readonly string[]} stray what was thrown outside of every test
 */

/**
 * @typedef {{ readonly kind: 'passed' }
 *   | { readonly kind: 'failed', readonly why: string }
 *   | { readonly kind: 'again', readonly files: readonly string[] }} Judgement
 */

/** A machine that is busy fails one test or another. What fails more than these is broken. */
const failuresMax = 4
const filesMax = 3

/**
 * What a failure may not be about, in its title or its message, to be looked at again: that one at a time holds, that fences
 * grow, that an effect happens once, that nothing secret is told. Rather a word too many: it only makes the run stricter.
 */
const aboutSafety =
  /exclu|overlap|fence|fencing|stale|beside|both h[eo]ld|two (hold|owner|effect|complet)|at the same time|the limit|exceed|no update|half-written|twice|(?<!at )once|effect|completion|duplicate|secret|token|tenant|hostile|escap|rights|forged|replay/i

/**
 * Whether a run has passed, has failed, or is to be looked at again, file by file, with the machine to itself.
 * @param {Run} run
 * @returns {Judgement}
 */
export function judge({ failures, stray }) {
  if (stray.length > 0) return failed(`${stray.length} errors were thrown outside of every test`)
  if (failures.length === 0) return { kind: 'passed' }
  const files = [...new Set(failures.map(({ file }) => file))]
  if (failures.length > failuresMax || files.length > filesMax) {
    return failed(
      `${failures.length} failures in ${files.length} files are more than a busy machine explains`,
    )
  }
  const grave = failures.find(({ title, message }) => aboutSafety.test(`${title}\n${message}`))
  if (grave !== undefined) return failed(`what is about safety is not looked at again: ${grave.title}`)
  return { kind: 'again', files }
}

/**
 * @param {string} why
 * @returns {Judgement}
 */
function failed(why) {
  return { kind: 'failed', why }
}
