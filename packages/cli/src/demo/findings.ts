/** Judges what the demonstration showed, from what the workers wrote down while they held the lock. Pure. */

import { formatDuration } from '../format/duration.js'
import { count } from '../format/views.js'
import type { Entry } from './protocol.js'

export interface Killed {
  readonly worker: number
  readonly fence: bigint
}

export interface Takeover {
  readonly worker: number
  readonly fence: bigint
  readonly afterMs: number
}

export interface Seen {
  readonly journal: readonly Entry[]
  readonly counter: number
  readonly killed: Killed | null
  readonly takeover: Takeover | null
  readonly failures: readonly string[]
}

export interface Finding {
  readonly ok: boolean
  readonly text: string
}

export function findingsOf(seen: Seen): Finding[] {
  const failures = seen.failures.map((text) => ({ ok: false, text }))
  return [handOvers(seen), kill(seen), takeover(seen), fences(seen), exactness(seen), ...failures]
}

function handOvers({ journal }: Seen): Finding {
  const changes = journal.filter(
    (entry, index) => index > 0 && entry.worker !== journal[index - 1]?.worker,
  ).length
  const workers = new Set(journal.map((entry) => entry.worker)).size
  return { ok: changes > 0, text: `${count(changes, 'hand-over')} between ${count(workers, 'worker')}` }
}

function kill({ killed }: Seen): Finding {
  return killed === null
    ? { ok: false, text: 'no worker could be killed while it held the lock' }
    : {
        ok: true,
        text: `worker ${killed.worker} died by kill -9 while it held the lock, fence ${killed.fence}`,
      }
}

function takeover({ killed, takeover: next }: Seen): Finding {
  if (killed === null || next === null) return { ok: false, text: 'nobody took over after the kill' }
  const later = formatDuration(next.afterMs)
  const took = `worker ${next.worker} took over ${later} later, when the lease had ended`
  return { ok: next.fence > killed.fence, text: `${took}: fence ${killed.fence} -> ${next.fence}` }
}

function fences({ journal }: Seen): Finding {
  const falls = journal.filter((entry, index) => entry.fence <= (journal[index - 1]?.fence ?? -1n))
  return falls.length === 0
    ? {
        ok: journal.length > 0,
        text: `fences only grew: ${count(journal.length, 'holder')}, each higher than the last`,
      }
    : { ok: false, text: `${count(falls.length, 'fence')} did not grow` }
}

/** The killed worker may have written the number and died before it could say so. */
function exactness({ journal, counter, killed }: Seen): Finding {
  const inOrder = journal.every((entry, index) => entry.count > (journal[index - 1]?.count ?? 0))
  const surplus = counter - journal.length
  const exact = inOrder && (surplus === 0 || (surplus === 1 && killed !== null))
  const doubt = exact && surplus === 1 ? ', one of them by the killed worker' : ''
  return exact
    ? { ok: true, text: `the counter is exact: ${counter} after ${count(counter, 'increment')}${doubt}` }
    : { ok: false, text: `the counter says ${counter} after ${count(journal.length, 'increment')}` }
}
