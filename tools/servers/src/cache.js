// @ts-check
// What is worth keeping from one run to the next: programs that were unpacked, and data folders of fresh servers.
import { homedir } from 'node:os'
import { join } from 'node:path'

/** @param {NodeJS.ProcessEnv} [env] */
export function cacheFolder(env = process.env) {
  const base = env.XDG_CACHE_HOME || join(env.HOME || homedir(), '.cache')
  return join(base, 'holdfast-servers')
}
