import { homedir, platform } from 'node:os'
import { join } from 'node:path'
import { env } from 'node:process'

/** Where the per-user lock file is, by the custom of the system. */
export function defaultDatabasePath(): string {
  if (platform() === 'darwin')
    return join(homedir(), 'Library', 'Application Support', 'holdfast', 'locks.db')
  const state = env['XDG_STATE_HOME']
  // The specification says that a relative path in this variable is to be ignored.
  const base = state?.startsWith('/') ? state : join(homedir(), '.local', 'state')
  return join(base, 'holdfast', 'locks.db')
}
