import type { ProcessEntry } from './process-table.js'

/**
 * Finds the members of a family of processes, and remembers them. A process that was a member stays one: its parent can
 * end, and its environment can be unreadable (`sudo`) or empty (`env -i`), so that nothing else shows where it belongs.
 */
export class ProcessMemory {
  #known = new Set<string>()

  /** Members are the known processes, those that `isMember` accepts, and the descendants of both. */
  membersOf(
    processes: readonly ProcessEntry[],
    isMember: (entry: ProcessEntry) => boolean,
  ): readonly ProcessEntry[] {
    const members = new Map<number, ProcessEntry>()
    for (const entry of processes) {
      if (this.#known.has(keyOf(entry)) || isMember(entry)) members.set(entry.pid, entry)
    }
    // The loop also visits the entries that it adds.
    for (const parent of members.keys()) {
      for (const entry of processes) if (entry.parent === parent) members.set(entry.pid, entry)
    }
    this.#known = new Set([...members.values()].map(keyOf))
    return [...members.values()]
  }
}

/** A pid can be used again, but not with the same start time. */
function keyOf({ pid, startTime }: ProcessEntry): string {
  return `${pid}@${startTime}`
}
