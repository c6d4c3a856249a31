/** Many callers of one process who want one lock: how often it changes hands. */

import { Mutex as AsyncMutex } from 'async-mutex'
import { connect } from 'holdfast'
import type { Contender } from '../rotation.js'
import type { Opened } from './uncontended.js'

const CALLERS = 64

/** `times` hand-overs, shared out evenly among the callers. */
async function crowd(times: number, takeAndGiveBack: () => Promise<void>): Promise<void> {
  const share = Math.ceil(times / CALLERS)
  const caller = async (): Promise<void> => {
    for (let done = 0; done < share; done += 1) await takeAndGiveBack()
  }
  await Promise.all(Array.from({ length: CALLERS }, caller))
}

export async function holdfastCrowd(): Promise<Opened> {
  const locks = await connect('memory:')
  const mutex = locks.mutex('bench')
  const takeAndGiveBack = async (): Promise<void> => {
    const hold = await mutex.acquire()
    await hold.release()
  }
  return {
    name: `holdfast memory:, ${CALLERS} callers`,
    run: (times) => crowd(times, takeAndGiveBack),
    close: () => locks.close(),
  }
}

export function asyncMutexCrowd(): Contender {
  const mutex = new AsyncMutex()
  const takeAndGiveBack = async (): Promise<void> => {
    const release = await mutex.acquire()
    release()
  }
  return { name: `async-mutex, ${CALLERS} callers`, run: (times) => crowd(times, takeAndGiveBack) }
}
