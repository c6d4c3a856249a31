/** Which locks a run has, and how each of them is used. Few names, so that processes really meet. */

import type { Guarantees } from 'holdfast'
import type { ResourceNote } from '../history/format.js'

/**
 * `mutex`: waits as long as it takes, also with `run()` and from an abort listener. `options`: with a shortest and a longest
 * time to hold, fixed leases and notes. `impatient`: with tries, timeouts and calls that are called off. `readers`: a
 * read-write lock that nobody writes to. `all`: several mutexes taken as one.
 */
export type Usage =
  | 'mutex'
  | 'options'
  | 'impatient'
  | 'reentrant'
  | 'read-write'
  | 'readers'
  | 'semaphore'
  | 'election'
  | 'all'

export interface NamePlan {
  readonly name: string
  readonly usage: Usage
  /** Of a semaphore; 1 otherwise. */
  readonly limit: number
  /** The most permits that one claim takes. */
  readonly permitsMax: number
}

const EXCLUSIVE = { limit: 1, permitsMax: 1 } as const

/** Every primitive that the recipe can do, and none that it would refuse. */
export function namesFor({ weights, limitMax }: Pick<Guarantees, 'weights' | 'limitMax'>): NamePlan[] {
  const names: NamePlan[] = [
    { name: 'mutex-1', usage: 'mutex', ...EXCLUSIVE },
    { name: 'options-1', usage: 'options', ...EXCLUSIVE },
    { name: 'impatient-1', usage: 'impatient', ...EXCLUSIVE },
    { name: 'reentrant-1', usage: 'reentrant', ...EXCLUSIVE },
    { name: 'election-1', usage: 'election', ...EXCLUSIVE },
    { name: 'all-1', usage: 'all', ...EXCLUSIVE },
    { name: 'all-2', usage: 'all', ...EXCLUSIVE },
    { name: 'all-3', usage: 'all', ...EXCLUSIVE },
  ]
  if (weights !== 'none' && limitMax >= 3) {
    const permitsMax = weights === 'any' ? 2 : 1
    names.push({ name: 'semaphore-1', usage: 'semaphore', limit: 3, permitsMax })
  }
  if (weights === 'any') {
    names.push({ name: 'read-write-1', usage: 'read-write', ...EXCLUSIVE })
    names.push({ name: 'readers-1', usage: 'readers', ...EXCLUSIVE })
  }
  return names
}

/** What the checker has to know of each name. */
export function resourcesOf(names: readonly NamePlan[]): Record<string, ResourceNote> {
  return Object.fromEntries(names.map((plan) => [plan.name, noteOf(plan)]))
}

function noteOf({ usage, limit }: NamePlan): ResourceNote {
  if (usage === 'semaphore') return { kind: 'semaphore', limit }
  if (usage === 'read-write' || usage === 'readers') return { kind: 'read-write' }
  return usage === 'reentrant' ? { kind: 'mutex', reentrant: true } : { kind: 'mutex' }
}

/** A register that only fenced writes change, one for each name that is held by one at a time. */
export function registerOf(name: string): string {
  return `register:${name}`
}

/** Sets grow with every element, so a long run goes on with a new one from time to time. */
export function setOf(name: string, epoch: number): string {
  return `set:${name}:${epoch}`
}
