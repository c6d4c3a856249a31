/** Reads the table of processes from `/proc`. Linux only. */

import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

export interface ProcessEntry {
  readonly pid: number
  readonly parent: number
  readonly group: number
  readonly session: number
  /** It has ended, and its parent has not collected it yet. It does nothing any more. */
  readonly isZombie: boolean
}

/**
 * All processes that this process can see, or null where they cannot be read: outside Linux, without `/proc`, or with
 * the `/proc` of another PID namespace, whose numbers mean other processes.
 */
export function readProcessTable(): readonly ProcessEntry[] | null {
  if (process.platform !== 'linux') return null
  try {
    if (readlinkSync('/proc/self') !== String(process.pid)) return null
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
    return pids.map((pid) => readEntry(pid)).filter((entry) => entry !== null)
  } catch {
    // A container can be without /proc, or deny access to it.
    return null
  }
}

function readEntry(pid: string): ProcessEntry | null {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    // It ended after its name was listed.
    return null
  }
}

/** The fields are in proc_pid_stat(5). The program's name is in brackets and can contain spaces and brackets. */
export function parseStat(stat: string): ProcessEntry | null {
  const pid = Number.parseInt(stat, 10)
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state, parent, group, session] = fields
  const threads = Number(fields[17])
  if (!(pid > 0) || session === undefined) return null
  return {
    pid,
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    // A process whose first thread has ended also has the state Z, but its other threads still work.
    isZombie: (state === 'Z' || state === 'X') && !(threads > 1),
  }
}

/** Whether the process was started with this variable in its environment. False if that cannot be read. */
export function hasVariable(pid: number, isMatch: (variable: string) => boolean): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').some(isMatch)
  } catch {
    // It ended meanwhile, or belongs to another user.
    return false
  }
}
