import { type Deadlock, findDeadlocks, type Guarantees, type Locks, type ResourceView } from 'holdfast'
import { pause } from './interruption.js'

/** Between two looks at what seems to be a deadlock. */
const AGAIN_MS = 100

/**
 * Whether a store shows its line. One that does not has no waiters to show, so nothing that is seen there tells whether
 * there is a deadlock; `connect()` refuses `deadlocks: 'detect'` under the same condition.
 */
export function showsWhoWaits({ shows, fair }: Guarantees): boolean {
  return shows === 'claims' && fair
}

/**
 * The deadlocks that these resources are part of, among all of the store. Where nobody waits there is none, and nothing
 * more is asked of the store. What a store lists is no picture of one moment, so a deadlock counts if it is seen twice.
 */
export async function deadlocksAround(
  locks: Locks,
  views: readonly ResourceView[],
  signal: AbortSignal,
): Promise<Deadlock[]> {
  const isAsked = showsWhoWaits(locks.guarantees) && views.some(({ waiters }) => waiters.length > 0)
  if (!isAsked) return []
  const first = await allDeadlocks(locks, signal)
  if (first.length === 0) return []
  await pause(AGAIN_MS, signal)
  const seen = new Set(first.map(keyOf))
  const names = new Set(views.map(({ resource }) => resource))
  return (await allDeadlocks(locks, signal)).filter(
    (deadlock) => seen.has(keyOf(deadlock)) && deadlock.cycle.some(({ waitsFor }) => names.has(waitsFor)),
  )
}

/** Those of them that a resource is part of. */
export function deadlocksAt(resource: string, deadlocks: readonly Deadlock[]): Deadlock[] {
  return deadlocks.filter(({ cycle }) => cycle.some(({ waitsFor }) => waitsFor === resource))
}

async function allDeadlocks(locks: Locks, signal: AbortSignal): Promise<Deadlock[]> {
  const waitedFor: ResourceView[] = []
  for await (const view of locks.list()) {
    signal.throwIfAborted()
    if (view.waiters.length > 0) waitedFor.push(view)
  }
  return findDeadlocks(waitedFor)
}

function keyOf({ certain, cycle }: Deadlock): string {
  return JSON.stringify([certain, cycle.map(({ waiter, heldBy }) => [waiter.ref, heldBy.ref])])
}
