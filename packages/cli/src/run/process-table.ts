/** Reads the table of processes from `/proc`. Linux only. */

import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

export interface ProcessEntry {
  readonly pid: number
  readonly parent: number
  readonly group: number
  readonly session: number
  /** In clock ticks since the system was started. */
  readonly startTime: number
  /** It has ended, and its parent has not collected it yet. It does nothing any more. */
  readonly isZombie: boolean
}

export interface ProcessReader {
  readTable(): readonly ProcessEntry[] | null
  /** The value of a variable in the environment that the process was started with. Null if it cannot be read. */
  readVariable(pid: number, name: string): string | null
}

export const procReader: ProcessReader = { readTable: readProcessTable, readVariable }

/**
 * All processes that this process can see, or null where they cannot be read: outside Linux, without `/proc`, or with
 * the `/proc` of another PID namespace, whose numbers mean other processes.
 */
function readProcessTable(): readonly ProcessEntry[] | null {
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
  const startTime = Number(fields[19])
  if (!(pid > 0) || session === undefined) return null
  return {
    pid,
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    startTime,
    // A process whose first thread has ended also has the state Z, but its other threads still work.
    isZombie: (state === 'Z' || state === 'X') && !(threads > 1),
  }
}

function readVariable(pid: number, name: string): string | null {
  try {
    const variables = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
    return variables.find((variable) => variable.startsWith(`${name}=`))?.slice(name.length + 1) ?? null
  } catch {
    // It ended meanwhile, or belongs to another user.
    return null
  }
}
