/**
 * Opens a file that others open at the same moment and that may not exist yet, and uses it at once.
 *
 *     opener.js URL TIMES
 */

import { connect } from 'holdfast'
import { argument, tell, told } from './shared/parent.js'

export interface Opened {
  readonly kind: 'opened'
  /** What became of each release. */
  readonly outcomes: readonly string[]
}

const times = Number(argument(1))
await tell({ kind: 'ready' })
await told('go')
const locks = await connect(argument(0))
const outcomes: string[] = []
for (let done = 0; done < times; done += 1) {
  const hold = await locks.mutex('opened').acquire({ waitMs: 60_000 })
  outcomes.push(await hold.release())
}
await tell<Opened>({ kind: 'opened', outcomes })
await locks.close()
process.disconnect()
