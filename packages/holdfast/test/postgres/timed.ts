import type { SqlLink } from '../../src/backends/sql/link.js'

/** The server's clock, for tests: a setting of the session. */
const TIMED = "to_timestamp(current_setting('test.now')::numeric)"

/** Sets that clock, in seconds, for the connection that it is run on. */
export const SET_TIME = "SELECT set_config('test.now', $1, false)"

/** Whatever asks for the time, in statements and in routines that are made, is answered by the session's own clock. */
export function timed<Client>(
  inner: SqlLink<Client>,
  change: (text: string) => string = (text) => text,
): SqlLink<Client> {
  const altered = (text: string): string => change(text).replaceAll('clock_timestamp()', TIMED)
  return {
    run: (statement, values) => inner.run({ ...statement, text: altered(statement.text) }, values),
    script: (text) => inner.script(altered(text)),
    session: () => inner.session(),
    close: () => inner.close(),
  }
}
