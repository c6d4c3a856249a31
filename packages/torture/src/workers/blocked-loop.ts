/**
 * Holds the lock and keeps the event loop busy for one and a half leases, so that no timer and no renewal can run.
 *
 *     blocked-loop.js URL TTL_MS
 */

import { connect } from 'holdfast'
import { blockFor } from './shared/block-for.js'
import { argument, codeOf, codeThrownBy, tell } from './shared/parent.js'

export interface Blocked {
  readonly kind: 'blocked'
  readonly before: string | null
  readonly assertHeld: string | null
  readonly aborted: boolean
  readonly abortReason: string
  readonly isHeld: boolean
  readonly remainingMs: number
  readonly extend: string | null
}

const ttlMs = Number(argument(1))
const locks = await connect(argument(0), { ttlMs })
const hold = await locks.mutex('blocked').acquire()
const before = codeThrownBy(() => hold.assertHeld())
blockFor(1.5 * ttlMs)
const assertHeld = codeThrownBy(() => hold.assertHeld())
const { aborted, reason } = hold.signal
const { isHeld, remainingMs } = hold
// Nothing brings a lost hold back, not even a store that would still answer for it.
const extend = await hold.extend().then(() => null, codeOf)
await tell<Blocked>({
  kind: 'blocked',
  before,
  assertHeld,
  aborted,
  abortReason: codeOf(reason),
  isHeld,
  remainingMs,
  extend,
})
await locks.close()
process.disconnect()
