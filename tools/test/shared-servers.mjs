// @ts-check
// Before the first test file, Vitest starts the host of the servers that files share, and after the last one it ends them.
import { hostSharedServers, sharedServersVariable } from 'holdfast-servers'

/** @returns {Promise<() => Promise<void>>} */
export async function setup() {
  const host = await hostSharedServers()
  process.env[sharedServersVariable] = host.socket
  return () => host.dispose()
}
