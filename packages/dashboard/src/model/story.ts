import type { Activity } from './contract.js'

/**
 * What is known of a lock's past, oldest first: what a service has answered, and what was heard since. Each instance of the
 * service numbers for itself, and the one that answers need not be the one that is listened to, so numbers say nothing
 * here. A claim does each thing once at a place of the line, and that is how something is known that is told twice.
 */
export function storyOf(past: readonly Activity[], heard: readonly Activity[], most: number): Activity[] {
  const told = new Set(heard.map(keyOf))
  return [...past.filter((event) => !told.has(keyOf(event))), ...heard]
    .map((event) => ({ event, at: Date.parse(event.at) }))
    .sort((a, b) => a.at - b.at)
    .slice(-most)
    .map(({ event }) => event)
}

function keyOf({ kind, ref, fence }: Activity): string {
  return `${kind} ${ref} ${fence}`
}
