/**
 * A set in a plain file: read, a pause, and all of it written back with one element more. Two who do that at once lose
 * an element. Nothing guards the file but the lock.
 *
 * No lock can guard it against a process that stands still between its last look at the clock and the write: only a
 * fence does, and a plain file checks none. So a write counts as protected only if the hold was asserted right before
 * it and its lease had not ended right after it. Any other write, one of a killed process included, may have been late
 * and may have wiped out what others added since it read; what they added in that time is not judged, only told.
 */

import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Violation } from '../check/verdict.js'
import type { Micros } from '../history/format.js'
import { grouped } from './grouped.js'

/** One element that somebody set out to add, as its process wrote it down. */
export interface PlainAdd {
  readonly set: string
  readonly element: string
  readonly p: string
  /** When the file was read, or is about to be. */
  readonly from: Micros
  /** When the last word about it was written down. */
  readonly to: Micros
  /**
   * `open`: its process did not live to say what became of it. `unwritten`: nothing was written, so nothing can have been
   * wiped out. `protected`: the hold was good right before the write and right after it. `late`: it was not.
   */
  readonly outcome: 'open' | 'unwritten' | 'protected' | 'late'
}

export class PlainSet {
  readonly #scene: string

  constructor(scene: string) {
    this.#scene = scene
  }

  read(set: string): string[] {
    try {
      return readFileSync(this.#pathOf(set), 'utf8').split('\n').filter(Boolean)
    } catch (error) {
      if (error instanceof Error && Reflect.get(error, 'code') === 'ENOENT') return []
      throw error
    }
  }

  /** In one piece, so that a kill in the middle leaves the old file. */
  write(set: string, elements: readonly string[], p: string): void {
    const path = this.#pathOf(set)
    const mine = `${path}.${p}`
    writeFileSync(mine, elements.join('\n'))
    renameSync(mine, path)
  }

  #pathOf(set: string): string {
    return join(this.#scene, set.replaceAll(':', '_'))
  }
}

const FOR_EVER = Number.POSITIVE_INFINITY

export interface PlainSetOutcome {
  readonly added: number
  readonly violations: readonly Violation[]
  /** Elements that are missing where a write came late, which no lock can prevent. */
  readonly unprotectedLosses: number
}

/** Compares what is in the files in the end with what was added. */
export function judgePlainSets(
  adds: readonly PlainAdd[],
  contentsOf: (set: string) => readonly string[],
  deathOf: (p: string) => Micros | null,
): PlainSetOutcome {
  const violations: Violation[] = []
  let unprotectedLosses = 0
  let added = 0
  for (const [set, ofSet] of grouped(adds, (add) => add.set)) {
    const present = new Set(contentsOf(set))
    const loose = ofSet
      .filter(({ outcome }) => outcome === 'late' || outcome === 'open')
      .map(({ p, from, to, outcome }) => ({ from, to: outcome === 'late' ? to : (deathOf(p) ?? FOR_EVER) }))
    for (const add of ofSet.filter(({ outcome }) => outcome === 'protected')) {
      added += 1
      if (present.has(add.element)) continue
      if (loose.some((late) => late.to >= add.to && late.from <= add.to)) unprotectedLosses += 1
      else violations.push(lossOf(add))
    }
  }
  return { added, violations, unprotectedLosses }
}

function lossOf(add: PlainAdd): Violation {
  return {
    kind: 'lost-update',
    resource: add.set,
    at: add.to,
    message: `${add.p} added ${add.element} to ${add.set} while it held the lock, and it is gone.`,
    involved: [{ p: add.p, from: add.from, to: add.to }],
  }
}

/** What the processes wrote down, from the files of a folder. */
export function readPlainAdds(folder: string): PlainAdd[] {
  const adds = new Map<string, PlainAdd>()
  for (const file of readdirSync(folder).filter((name) => name.startsWith('adds-'))) {
    for (const line of readFileSync(join(folder, file), 'utf8').split('\n')) {
      const add = parseAdd(line)
      // The second line of an element says how it ended.
      if (add !== null) adds.set(add.element, add)
    }
  }
  return [...adds.values()]
}

/** A killed process leaves half a line at the end of its file. */
function parseAdd(line: string): PlainAdd | null {
  try {
    return line === '' ? null : (JSON.parse(line) as PlainAdd)
  } catch {
    return null
  }
}
