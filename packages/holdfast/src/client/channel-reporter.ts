import { channel } from 'node:diagnostics_channel'
import type { Reporter } from '../core/events.js'

/** Subscribe to this channel of `node:diagnostics_channel` to see what every client of the process does. */
export const EVENTS_CHANNEL = 'holdfast'

const events = channel(EVENTS_CHANNEL)

/**
 * The channel is one for the whole process, even where the library is loaded twice, as a module and with `require`. So the
 * numbers of acquisitions have to be, too.
 */
const COUNT = Symbol.for('holdfast.acquisitions')
const shared = globalThis as { [COUNT]?: { last: number } }
shared[COUNT] ??= { last: 0 }
const count = shared[COUNT]

export const channelReporter: Reporter = {
  get isHeard() {
    return events.hasSubscribers
  },
  number() {
    count.last += 1
    return count.last
  },
  tell(event) {
    events.publish(event)
  },
}
