/**
 * Holds the lock, works in a loop that hardly ever yields, and is stopped by the parent in the middle of it. When it
 * goes on, it says what the library tells it before anything else has run.
 *
 *     stopped-holder.js URL SOCKET TTL_MS
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'holdfast'
import { guardedWrite } from './shared/guarded-write.js'
import { argument, codeOf, codeThrownBy, tell } from './shared/parent.js'

export interface Held {
  readonly kind: 'held'
  readonly fence: string
}

export interface Awoken {
  readonly kind: 'awoken'
  /** Whether the hold was good right before the process stood still. */
  readonly heldBefore: boolean
  readonly assertHeld: string | null
  readonly aborted: boolean
  readonly abortReason: string
  readonly isHeld: boolean
  readonly released: string
  readonly write: string
}

const [url, socketPath] = [argument(0), argument(1)]
const ttlMs = Number(argument(2))
/** Shorter than the third of the lease after which the keeper wants to renew. */
const sliceMs = ttlMs / 4
const yieldMs = 5

const locks = await connect(url, { ttlMs })
const hold = await locks.mutex('stopped').acquire()
// Long enough for a renewal, so that the hold is one that was kept.
await sleep(ttlMs / 2)
let heldBefore = hold.isHeld
let last = performance.now()
// Not awaited: the loop begins at once, so that the parent stops this process in the middle of it, and not in the
// middle of a transaction, where it would hold up everybody else.
void tell<Held>({ kind: 'held', fence: String(hold.fence) })

/** Works without yielding. True as soon as the clock has jumped: then the process has just been let go on. */
function workUntilAwoken(): boolean {
  const until = performance.now() + sliceMs
  for (;;) {
    const now = performance.now()
    if (now - last > 2 * ttlMs) return true
    const { isHeld } = hold
    // The process may have been stopped within the question, and then the answer is not from before.
    if (performance.now() - now < ttlMs) heldBefore = isHeld
    last = now
    if (now > until) return false
  }
}

while (!workUntilAwoken()) await sleep(yieldMs)
// From here to the first `await` nothing else of this process runs: no timer, no answer of the store.
const assertHeld = codeThrownBy(() => hold.assertHeld())
const { aborted, reason } = hold.signal
const { isHeld } = hold
const released = await hold.release()
const write = await guardedWrite(socketPath, hold.fence)
await tell<Awoken>({
  kind: 'awoken',
  heldBefore,
  assertHeld,
  aborted,
  abortReason: codeOf(reason),
  isHeld,
  released,
  write,
})
await locks.close()
process.disconnect()
