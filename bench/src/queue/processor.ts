/** The processor time of a server, which may be several processes. */

import { readdir, readFile } from 'node:fs/promises'

/** What Linux counts processor time in. */
const TICK_MS = 10

interface Process {
  readonly pid: number
  readonly parent: number
  readonly cpuMs: number
}

/** What the process and all below it have used so far, in milliseconds; null where the system does not tell. */
export async function familyCpuMs(pid: number): Promise<number | null> {
  const all = await processes()
  if (!all.some((each) => each.pid === pid)) return null
  const family = new Set([pid])
  // Children have higher numbers than their parents, nearly always; a second pass finds the others.
  for (let pass = 0; pass < 2; pass += 1) {
    for (const each of all) if (family.has(each.parent)) family.add(each.pid)
  }
  return all.filter((each) => family.has(each.pid)).reduce((sum, { cpuMs }) => sum + cpuMs, 0)
}

async function processes(): Promise<readonly Process[]> {
  const names = await readdir('/proc').catch(() => [])
  const found = await Promise.all(names.filter((name) => /^\d+$/.test(name)).map(readProcess))
  return found.filter((each) => each !== null).toSorted((a, b) => a.pid - b.pid)
}

/** null for one that has ended meanwhile. */
async function readProcess(name: string): Promise<Process | null> {
  const text = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
  // The name of the program stands in parentheses, and may have spaces and parentheses in it.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  if (fields.length < 13) return null
  const cpuMs = (Number(fields[11]) + Number(fields[12])) * TICK_MS
  return { pid: Number(name), parent: Number(fields[1]), cpuMs }
}
