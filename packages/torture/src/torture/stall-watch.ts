import type { Diary } from './diary.js'

const LOOK_MS = 20
/** Less than this is not worth a line: a timer is always a little late. */
const NOTABLE_MS = 30

/**
 * Notes when the event loop of this process stood still, for whatever reason: a stop from outside, a busy loop, a
 * machine with too much to do. Nobody can be told of anything in that time.
 */
export function watchForStalls(diary: Diary): () => void {
  let due = performance.now() + LOOK_MS
  const timer = setInterval(() => {
    const now = performance.now()
    const lateMs = now - due
    // Since the look before, the loop may have stood still at any time; so the whole of it counts.
    if (lateMs > NOTABLE_MS) {
      diary.note(diary.process, 'stall', 'note', '', { forMicros: Math.ceil((lateMs + LOOK_MS) * 1_000) })
    }
    due = now + LOOK_MS
  }, LOOK_MS)
  return () => clearInterval(timer)
}
