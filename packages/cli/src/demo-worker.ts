/** One worker of `holdfast demo`: takes the lock, adds one to a number in a file, releases, and so on. */

import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type Hold, LockLostError, type Locks } from 'holdfast'
import {
  type FromWorker,
  journalFile,
  journalLine,
  LOCK_NAME,
  readCounter,
  type ToWorker,
  TTL_MS,
  type WorkerSetup,
  writeCounter,
} from './demo/protocol.js'

/** Long enough to see who holds the lock, short enough for many hand-overs. */
const WORK_MS = 120
const REST_MS = 60

/** Far beyond the end of any demonstration; the kill comes first. */
const LINGER_MS = 600_000

const setup = JSON.parse(process.argv[2] ?? '{}') as WorkerSetup
const stopping = new AbortController()
let linger = false

process.on('message', (message: ToWorker) => {
  if (message.type === 'linger') linger = true
  else stopping.abort()
})
// Without whoever watches there is nothing to demonstrate, and nobody to end this process.
process.on('disconnect', () => process.exit(0))
// Ctrl-C reaches every process of the terminal; the demonstration ends its workers itself, in order.
process.on('SIGINT', () => stopping.abort())

try {
  const locks = await connect(setup.url, { ttlMs: TTL_MS })
  tell({ type: 'ready' })
  await work(locks)
  await locks.close()
} catch (error) {
  tell({ type: 'failed', message: error instanceof Error ? error.message : String(error) })
}
if (process.connected) process.disconnect()

async function work(locks: Locks): Promise<void> {
  const mutex = locks.mutex(LOCK_NAME, { note: `worker ${setup.worker}` })
  while (!stopping.signal.aborted) {
    tell({ type: 'waiting' })
    try {
      await mutex.run(increment, { signal: stopping.signal })
    } catch (error) {
      if (stopping.signal.aborted) return
      // A machine that stood still for longer than the lease loses the lock, and the worker starts over.
      if (!(error instanceof LockLostError)) throw error
      tell({ type: 'lost', message: error.message })
    }
    await sleep(REST_MS * (0.5 + Math.random()))
  }
}

/** The pause between reading and writing would lose counts, if two workers were ever in here at once. */
async function increment(hold: Hold): Promise<void> {
  const lingers = linger
  tell({ type: 'granted', fence: String(hold.fence), lingers })
  const before = readCounter(setup.folder)
  if (lingers) await sleep(LINGER_MS, undefined, { signal: stopping.signal })
  else await sleep(WORK_MS * (0.5 + Math.random()))
  hold.assertHeld()
  const count = before + 1
  writeCounter(setup.folder, count, setup.worker)
  appendFileSync(journalFile(setup.folder), journalLine({ worker: setup.worker, fence: hold.fence, count }))
  tell({ type: 'counted', count })
}

function tell(message: FromWorker): void {
  if (process.connected) process.send?.(message)
}
