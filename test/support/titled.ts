const SAID = /^(does not apply|skipped:|not run:)/

/**
 * The title of a test or of a group. Where it is skipped, the title ends with the reason in parentheses, in the form that
 * the reporter of the tests reads.
 */
export function titled(title: string, reason: string | null | undefined): string {
  if (reason === null || reason === undefined) return title
  return `${title} (${SAID.test(reason) ? reason : `not run: ${reason}`})`
}
