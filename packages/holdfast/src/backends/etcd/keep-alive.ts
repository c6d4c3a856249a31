/** Tells etcd that leases are still wanted, over one stream for all leases of a client. */

import { asyncContexts } from '../../core/async-context.js'
import { monotonicMs, within } from '../shared/clock.js'
import { etcdError, unanswered } from './errors.js'
import type { EtcdLink, LinkStream } from './link.js'
import { LEASE_KEEP_ALIVE, type LeaseKeepAliveRequest, type LeaseKeepAliveResponse } from './messages.js'
import type { Encoded } from './proto.js'

interface Pending {
  readonly resolve: (answer: LeaseKeepAliveResponse) => void
  readonly reject: (error: unknown) => void
}

type Stream = LinkStream<Encoded<typeof LeaseKeepAliveRequest>>

export class KeepAlive {
  readonly #link: EtcdLink
  #stream: Promise<Stream> | null = null
  /**
   * Those who wait for an answer, by lease. The server answers the requests for a lease in their order. Who has given up
   * stays in the row, because the answer to an old request must not be taken for that of a new one.
   */
  readonly #pending = new Map<bigint, Pending[]>()

  constructor(link: EtcdLink) {
    this.#link = link
  }

  /** Says that the lease is wanted, and gives what the server says to that. Its time to live is 0 if there is no such lease. */
  async ask(id: bigint, ms: number): Promise<LeaseKeepAliveResponse> {
    const sentAt = monotonicMs()
    const opening = this.#opened()
    const answer = opening.then((stream) => this.#send(stream, id))
    return await within(ms, answer, () => {
      // An error of the opening reaches those who wait by `answer`.
      opening.then((stream) => stream.doubt(sentAt)).catch(() => {})
      return unanswered(false, Math.round(ms))
    })
  }

  close(): void {
    this.#stream?.then((stream) => stream.close()).catch(() => {})
    this.#stream = null
    this.#fail(null)
  }

  #send(stream: Stream, id: bigint): Promise<LeaseKeepAliveResponse> {
    return new Promise((resolve, reject) => {
      const row = this.#pending.get(id) ?? []
      row.push({ resolve, reject })
      this.#pending.set(id, row)
      stream.send({ id })
    })
  }

  #opened(): Promise<Stream> {
    if (this.#stream !== null) return this.#stream
    const handlers = {
      message: (answer: LeaseKeepAliveResponse) => this.#answered(answer),
      ended: (error: unknown) => {
        if (this.#stream === opening) this.#stream = null
        this.#fail(error)
      },
    }
    // All callers share the stream, so it must not keep the async context of the first one.
    const opening: Promise<Stream> = asyncContexts.outside(() => this.#link.open(LEASE_KEEP_ALIVE, handlers))
    this.#stream = opening
    opening.catch(() => {
      if (this.#stream === opening) this.#stream = null
    })
    return opening
  }

  #answered(answer: LeaseKeepAliveResponse): void {
    const row = this.#pending.get(answer.id)
    const first = row?.shift()
    if (row?.length === 0) this.#pending.delete(answer.id)
    first?.resolve(answer)
  }

  /** Nothing of what was sent over the stream will be answered. */
  #fail(error: unknown): void {
    const rows = [...this.#pending.values()]
    this.#pending.clear()
    const reason = etcdError(error, false) ?? unanswered(false, 0)
    for (const row of rows) for (const each of row) each.reject(reason)
  }
}
