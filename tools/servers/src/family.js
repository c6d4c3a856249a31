// @ts-check
// A server can be several processes: PostgreSQL has one for every connection, each in a session of its own. Whoever
// stops or kills it means all of them.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'

const stopTriesMax = 1_000

/** @typedef {{ readonly pid: number, readonly parent: number, readonly state: string }} ProcessState */

/**
 * @param {number} pid
 * @returns {ProcessState | undefined} Undefined if there is no such process.
 */
function stateIn(pid) {
  let stat
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch {
    // It ended while the list was read.
    return undefined
  }
  // The name of the program stands in brackets and can hold anything.
  const [state = '', parent = ''] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { pid, parent: Number(parent), state }
}

/** @returns {ProcessState[]} */
function allProcesses() {
  if (existsSync('/proc/self/stat')) {
    return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? (stateIn(Number(name)) ?? []) : []))
  }
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid=,state='], { encoding: 'utf8' })
  return stdout.split('\n').flatMap((line) => {
    const [pid, parent, state] = line.trim().split(/\s+/)
    return state === undefined ? [] : { pid: Number(pid), parent: Number(parent), state: state.slice(0, 1) }
  })
}

/**
 * The process and all below it. A process that has ended and that nobody has collected does not count.
 * @param {number} pid
 * @returns {ProcessState[]}
 */
export function familyOf(pid) {
  const all = allProcesses().filter(({ state }) => state !== 'Z')
  const found = all.filter((each) => each.pid === pid)
  // The list grows while it is gone through, by the children of each.
  for (const { pid: parent } of found) found.push(...all.filter((each) => each.parent === parent))
  return found
}

/**
 * Those of some processes that have not ended.
 * @param {readonly number[]} pids
 */
export function aliveOf(pids) {
  const wanted = new Set(pids)
  return allProcesses().filter(({ pid, state }) => wanted.has(pid) && state !== 'Z')
}

/**
 * Sends a signal; gives false if the process is gone.
 * @param {number} pid
 * @param {NodeJS.Signals} signal
 */
export function signalPid(pid, signal) {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ESRCH') return false
    throw error
  }
}

/**
 * Ends a process and all below it.
 * @param {number} pid
 * @returns {number[]} The processes that got the signal.
 */
export function killFamily(pid) {
  // One that is stopped has no more children while they are looked for. The signal takes a moment; a process that does
  // not stop in this time waits for a disk, and will end without having done anything else.
  signalPid(pid, 'SIGSTOP')
  for (let tries = 0; tries < stopTriesMax && /[RSD]/.test(stateIn(pid)?.state ?? ''); tries += 1) continue
  const pids = [...new Set([pid, ...familyOf(pid).map((each) => each.pid)])]
  for (const each of pids) signalPid(each, 'SIGKILL')
  return pids
}

/**
 * Stops a process and all below it.
 * @param {number} pid
 * @returns {boolean} Whether all of them have come to a stop. A signal does not take hold at once, so ask again.
 */
export function stopFamily(pid) {
  signalPid(pid, 'SIGSTOP')
  const running = familyOf(pid).filter(({ state }) => state !== 'T')
  for (const each of running) signalPid(each.pid, 'SIGSTOP')
  return running.length === 0
}

/**
 * Lets a process and all below it go on.
 * @param {number} pid
 */
export function continueFamily(pid) {
  // The children go on first, so that the parent finds them as it left them.
  for (const each of familyOf(pid).reverse()) signalPid(each.pid, 'SIGCONT')
}
