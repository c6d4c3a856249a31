/**
 * Adds one to the counter in a fenced log until it is killed, and tells the parent of every addition that counts.
 *
 *     fenced-counter.js URL LOG TTL_MS
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type Hold, HoldfastError } from 'holdfast'
import { FencedLog, type LogRecord } from './shared/fenced-log.js'
import { argument, codeOf, tell } from './shared/parent.js'

export interface Acknowledged {
  readonly kind: 'acknowledged'
  readonly operation: string
}

export interface Setback {
  readonly kind: 'setback'
  readonly code: string
}

const PAUSE_MS = 1

const ttlMs = Number(argument(2))
let operations = 0
let pending = ''
let pendingCounts = false

function noteOwn(record: LogRecord, counts: boolean): void {
  if (record.kind === 'set' && record.operation === pending) pendingCounts = counts
}

const log = new FencedLog(argument(1), noteOwn)
const locks = await connect(argument(0), { ttlMs })
const mutex = locks.mutex('counter')
await tell({ kind: 'ready' })

async function addOne({ fence }: Hold): Promise<void> {
  operations += 1
  pending = `${process.pid}-${operations}`
  pendingCounts = false
  log.open(fence)
  // Each pause is a place to be killed or stopped at: between the fence, the reading, the writing and the word of it.
  await sleep(PAUSE_MS)
  log.catchUp()
  const value = log.value + 1
  await sleep(PAUSE_MS)
  log.set(fence, value, pending)
  await sleep(PAUSE_MS)
  log.catchUp()
  if (pendingCounts) await tell<Acknowledged>({ kind: 'acknowledged', operation: pending })
}

for (;;) {
  try {
    await mutex.run(addOne)
  } catch (error) {
    // Losing the lock is part of the game, and so is a store that is busy; anything else is a defect.
    if (!(error instanceof HoldfastError)) throw error
    await tell<Setback>({ kind: 'setback', code: codeOf(error) })
  }
}
