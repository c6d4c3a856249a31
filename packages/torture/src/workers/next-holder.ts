/**
 * Waits for the lock, writes under it, and keeps it until told to look whether it still has it.
 *
 *     next-holder.js URL SOCKET TTL_MS
 */

import { connect } from 'holdfast'
import { guardedWrite } from './shared/guarded-write.js'
import { argument, codeThrownBy, tell, told } from './shared/parent.js'

export interface Wrote {
  readonly kind: 'wrote'
  readonly fence: string
  readonly write: string
}

export interface Looked {
  readonly kind: 'looked'
  readonly assertHeld: string | null
  readonly aborted: boolean
  readonly write: string
}

const socketPath = argument(1)
const locks = await connect(argument(0), { ttlMs: Number(argument(2)) })
const look = told('look')
const hold = await locks.mutex('stopped').acquire()
await tell<Wrote>({
  kind: 'wrote',
  fence: String(hold.fence),
  write: await guardedWrite(socketPath, hold.fence),
})
await look
const assertHeld = codeThrownBy(() => hold.assertHeld())
const { aborted } = hold.signal
await tell<Looked>({ kind: 'looked', assertHeld, aborted, write: await guardedWrite(socketPath, hold.fence) })
await hold.release()
await locks.close()
process.disconnect()
