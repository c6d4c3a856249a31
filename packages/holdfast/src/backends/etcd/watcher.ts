/** Watches keys, all over one stream of a client. */

import { asyncContexts } from '../../core/async-context.js'
import { jitteredPause } from '../shared/clock.js'
import type { EtcdLink, LinkStream } from './link.js'
import { WATCH, type WatchEvent, type WatchRequest, type WatchResponse, WITHOUT_PUTS } from './messages.js'
import type { Encoded } from './proto.js'

/** What to watch, and since when. */
export interface Watched {
  readonly key: Buffer
  /** Everything counts that happened at this revision of the store or later. */
  readonly from: bigint
  /** Whether changes matter, and not the end of the key alone. */
  readonly withPuts: boolean
}

interface Watch extends Watched {
  readonly seen: (events: readonly WatchEvent[]) => void
  /** It cannot be told any more what happens. */
  readonly broken: () => void
}

type Stream = LinkStream<Encoded<typeof WatchRequest>>

const REOPEN_MS = 50
const REOPEN_MS_MAX = 2_000

export class Watcher {
  readonly #link: EtcdLink
  readonly #watches = new Map<bigint, Watch>()
  #stream: Stream | null = null
  #opening = false
  #failures = 0
  #lastId = 0n
  #isClosed = false

  constructor(link: EtcdLink) {
    this.#link = link
  }

  /** Gives a function that ends the watch. */
  watch(watched: Watched, seen: Watch['seen'], broken: Watch['broken']): () => void {
    this.#lastId += 1n
    const id = this.#lastId
    this.#watches.set(id, { ...watched, seen, broken })
    if (this.#stream !== null) this.#create(this.#stream, id)
    // All callers share the stream, so it must not keep the async context of the first one.
    else void asyncContexts.outside(() => this.#open())
    return () => {
      if (this.#watches.delete(id)) this.#stream?.send({ cancel: { watchId: id } })
    }
  }

  close(): void {
    this.#isClosed = true
    this.#watches.clear()
    this.#stream?.close()
    this.#stream = null
  }

  #create(stream: Stream, id: bigint): void {
    const watch = this.#watches.get(id)
    if (watch === undefined) return
    const { key, from, withPuts } = watch
    const filters = withPuts ? [] : [WITHOUT_PUTS]
    stream.send({ create: { key, startRevision: from, filters, watchId: id, fragment: true } })
  }

  /**
   * Opens the stream, with all watches that there are. Each says since when, and so misses nothing of what happened while
   * there was no stream.
   */
  async #open(): Promise<void> {
    if (this.#opening) return
    this.#opening = true
    try {
      while (this.#stream === null && this.#watches.size > 0 && !this.#isClosed) {
        if (this.#failures > 0) await jitteredPause(Math.min(REOPEN_MS * 2 ** this.#failures, REOPEN_MS_MAX))
        this.#failures += 1
        try {
          await this.#openOnce()
        } catch {
          // The next round tries another member. Those who wait ask now and then by themselves.
        }
      }
    } finally {
      this.#opening = false
    }
  }

  async #openOnce(): Promise<void> {
    let isOver = false
    const stream = await this.#link.open(WATCH, {
      message: (answer) => this.#answered(answer),
      ended: () => {
        isOver = true
        if (this.#stream === stream) this.#stream = null
        if (!this.#opening) void this.#open()
      },
    })
    if (isOver) return
    if (this.#isClosed) {
      stream.close()
      return
    }
    this.#stream = stream
    for (const id of this.#watches.keys()) this.#create(stream, id)
  }

  #answered({ watchId, created, canceled, events }: WatchResponse): void {
    if (created && !canceled) this.#failures = 0
    const watch = this.#watches.get(watchId)
    if (watch === undefined) return
    if (canceled) {
      // The history since then was compacted, or the right was taken away, or the member has lost its leader.
      this.#watches.delete(watchId)
      watch.broken()
    } else if (events.length > 0) watch.seen(events)
  }
}
