/** One connection of each client listens for what is pushed to it. */

import { HoldfastError, UnsupportedError } from '../../core/errors.js'
import { jitteredPause, randomName, within } from '../shared/clock.js'
import type { SqlLink, SqlRunner, SqlSession } from '../sql/link.js'
import type { Wakeup } from '../sql/rows-backend.js'
import type { PgClient, PgNotification } from './client.js'
import { postgresError } from './errors.js'

/** How long a notification of our own may take to come back before it counts as never. */
const ECHO_MS = 5_000
/** How often a silent connection is spoken to: one that does not answer is replaced, and who waits is told to ask. */
const PING_MS = 10_000
const RETRY_MS = 100
const RETRY_MS_MAX = 5_000

const NOTIFY = { name: 'holdfast_echo', text: 'SELECT pg_notify($1, $2)' }

export class Listener implements Wakeup {
  readonly channel = `holdfast_${randomName()}`
  readonly #link: SqlLink<PgClient>
  #session: SqlSession<PgClient> | null = null
  #heard: (message: string) => void = () => {}
  #restored: () => void = () => {}
  #echo: (() => void) | null = null
  #closing = new AbortController()

  constructor(link: SqlLink<PgClient>) {
    this.#link = link
  }

  async open(heard: (message: string) => void, restored: () => void): Promise<void> {
    this.#closing = new AbortController()
    this.#heard = heard
    this.#restored = restored
    await this.#listen()
    void this.#watch(this.#closing.signal)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#session?.destroy()
    this.#session = null
  }

  async #listen(): Promise<void> {
    const session = await this.#link.session()
    try {
      session.client.on('notification', (message) => this.#notified(message))
      // The channel is of our own making, and is nothing but letters, digits and underscores.
      await session.client.query(`LISTEN ${this.channel}`)
      // From another connection: a pooler may well give the same one twice, which would then hear itself.
      await this.#echoes(this.#link)
    } catch (error) {
      session.destroy()
      throw postgresError(error)
    }
    if (this.#closing.signal.aborted) session.destroy()
    else this.#session = session
  }

  /** A pooler takes LISTEN and never delivers anything, so the way back is tried before it is relied on. */
  async #echoes(speaker: SqlRunner): Promise<void> {
    const echo = new Promise<void>((resolve) => {
      this.#echo = resolve
    })
    await speaker.run(NOTIFY, [this.channel, 'echo'])
    await within(ECHO_MS, echo, () => {
      return new UnsupportedError(
        'Notifications of PostgreSQL do not arrive over this connection, as behind a pooler in transaction mode. ' +
          "Connect to the server itself, or give `wake: 'poll'`.",
        { backend: 'postgres' },
      )
    })
  }

  #notified({ channel, payload }: PgNotification): void {
    if (channel !== this.channel || payload === undefined) return
    if (payload === 'echo') this.#echo?.()
    else this.#heard(payload)
  }

  /** Speaks to the connection now and then, and makes a new one when it has ended. Ends when the client is closed. */
  async #watch(closing: AbortSignal): Promise<void> {
    let pauseMs = RETRY_MS
    while (!closing.aborted) {
      try {
        if (this.#session === null || this.#session.isEnded) {
          await this.#listen()
          // What was pushed meanwhile is lost, so whoever waits has to ask.
          this.#restored()
          pauseMs = RETRY_MS
        }
        const session = this.#session
        if (session === null) return
        await endOrPause(PING_MS, session, closing)
        if (!closing.aborted && !session.isEnded) await this.#echoes(session)
      } catch (error) {
        if (closing.aborted) return
        this.#session?.destroy()
        // Nobody is there to hear of it: those who wait ask by themselves, only less often.
        if (!(error instanceof HoldfastError)) pauseMs = RETRY_MS_MAX
        await jitteredPause(pauseMs, closing).catch(() => {})
        pauseMs = Math.min(pauseMs * 2, RETRY_MS_MAX)
      }
    }
  }
}

/** Ends with the session, with the client, or after `ms`. Every listener is taken away again: the connection and the client outlive very many pings. */
export async function endOrPause(
  ms: number,
  session: Pick<SqlSession, 'onEnd'>,
  closing: AbortSignal,
): Promise<void> {
  const waking = new AbortController()
  const wake = (): void => waking.abort()
  const unlisten = session.onEnd(wake)
  closing.addEventListener('abort', wake)
  if (closing.aborted) wake()
  await jitteredPause(ms, waking.signal).catch(() => {})
  closing.removeEventListener('abort', wake)
  unlisten()
}
