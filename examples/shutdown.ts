// Stop taking work, let what runs come to its end, give the rest back.
import { ClosedError, connect } from 'holdfast'

const locks = await connect('memory:example')
process.once('SIGTERM', () => void locks.close({ drainMs: 10_000 }))

const working = locks.mutex('report').run(async (hold) => {
  // Pass the signal on: it aborts when the lock is lost, or taken back by the closing.
  await fetch('data:text/plain,hello', { signal: hold.signal })
})
await working
await locks.close({ drainMs: 10_000 })
await locks
  .mutex('report')
  .acquire()
  .catch((error: unknown) => {
    if (!(error instanceof ClosedError)) throw error
  })
