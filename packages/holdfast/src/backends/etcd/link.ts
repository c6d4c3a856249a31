/**
 * The way to an etcd server or cluster. Requests go to one member until it fails; then they, and the streams, go to the
 * next one. Everything has a deadline of its own, by the monotonic clock.
 */

import { ClosedError, HoldfastError } from '../../core/errors.js'
import { monotonicMs, within } from '../shared/clock.js'
import type { EtcdAccess, Grpc, GrpcClient, GrpcMetadata, GrpcStream } from './client.js'
import { etcdError, fateOf, unanswered } from './errors.js'
import { AUTHENTICATE, type Method } from './messages.js'
import type { Fields, Message, Sent } from './proto.js'

/** The time that one request may take unless it is said otherwise. */
export const REQUEST_MS = 2_000

const CHANNEL_OPTIONS: Record<string, unknown> = {
  // A server refuses to be asked for signs of life more often than every five seconds. Requests have deadlines of their own.
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 3_000,
  'grpc.initial_reconnect_backoff_ms': 50,
  'grpc.min_reconnect_backoff_ms': 50,
  'grpc.max_reconnect_backoff_ms': 1_000,
  'grpc.max_receive_message_length': 64 * 1024 * 1024,
  // Connections end with their client, and no proxy of the environment stands between.
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
}

/** One member, as far as it is in use. */
interface Channel {
  readonly index: number
  readonly client: GrpcClient
  /** How to end each of its streams. */
  readonly streams: Set<(error: unknown) => void>
  answeredAt: number
}

/** What a stream tells. `ended` comes once and last, unless the stream is closed here. */
export interface StreamEvents<Answer> {
  message(answer: Answer): void
  ended(error: unknown): void
}

/** A stream of requests and answers. */
export interface LinkStream<Request> {
  send(request: Request): void
  /** It has not answered in time. Where nothing else was answered either, everything moves to another member. */
  doubt(sinceMs: number): void
  close(): void
}

export class EtcdLink {
  readonly access: EtcdAccess
  readonly requestMs: number
  readonly #grpc: Grpc
  #channel: Channel | null = null
  #next = 0
  #token: Promise<string> | null = null
  #isClosed = false

  constructor(grpc: Grpc, access: EtcdAccess, requestMs = REQUEST_MS) {
    this.#grpc = grpc
    this.access = access
    this.requestMs = requestMs
  }

  /** One request. A member that certainly did nothing is passed over in favour of the next. */
  async call<Q extends Fields, A extends Fields>(
    method: Method<Q, A>,
    request: Sent<Q>,
    ms = this.requestMs,
  ): Promise<Message<A>> {
    const endAt = monotonicMs() + ms
    let isTokenNew = false
    for (let tries = 1; ; tries += 1) {
      const channel = this.#current()
      try {
        const token = await this.#tokenFor(channel, endAt)
        return await this.#ask(channel, method, request, endAt - monotonicMs(), token)
      } catch (error) {
        const fate = fateOf(error)
        if (fate === 'token' && this.#token !== null && !isTokenNew) {
          this.#token = null
          isTokenNew = true
          continue
        }
        const isHarmless = fate === 'not-done' || (fate === 'unknown' && !method.isWrite)
        if (fate === 'not-done' || fate === 'unknown') this.#leave(channel)
        const isLast = tries >= this.access.endpoints.length || monotonicMs() >= endAt
        if (!isHarmless || isLast) throw etcdError(error, method.isWrite)
      }
    }
  }

  /** Opens a stream at the present member. Rejects where it cannot even be asked for. */
  async open<Q extends Fields, A extends Fields>(
    method: Method<Q, A>,
    events: StreamEvents<Message<A>>,
  ): Promise<LinkStream<Sent<Q>>> {
    const channel = this.#current()
    const endAt = monotonicMs() + this.requestMs
    let token: string | null
    try {
      token = await this.#tokenFor(channel, endAt)
    } catch (error) {
      this.#leave(channel)
      throw etcdError(error, false)
    }
    const stream = channel.client.makeBidiStreamRequest(
      method.path,
      (message) => method.request.encode(message as Sent<Q>),
      (bytes) => method.response.decode(bytes),
      this.#metadata(token),
    )
    return this.#follow(channel, stream, events)
  }

  #follow<Request, Answer>(
    channel: Channel,
    stream: GrpcStream,
    events: StreamEvents<Answer>,
  ): LinkStream<Request> {
    let isOver = false
    const over = (error: unknown): void => {
      channel.streams.delete(over)
      if (isOver) return
      isOver = true
      stream.cancel()
      const fate = fateOf(error)
      if (fate === 'token') this.#token = null
      else if (fate === 'not-done' || fate === 'unknown') this.#leave(channel)
      events.ended(error)
    }
    const own: LinkStream<Request> = {
      send: (request) => {
        if (!isOver) stream.write(request)
      },
      doubt: (sinceMs) => {
        if (!isOver && channel.answeredAt < sinceMs) this.#abandon(channel)
      },
      close: () => {
        isOver = true
        channel.streams.delete(over)
        stream.cancel()
      },
    }
    channel.streams.add(over)
    stream.on('data', (message) => {
      channel.answeredAt = monotonicMs()
      if (!isOver) events.message(message as Answer)
    })
    stream.on('error', over)
    stream.on('end', () => over(null))
    return own
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const channel = this.#channel
    this.#channel = null
    for (const end of channel?.streams ?? []) end(null)
    channel?.client.close()
  }

  #current(): Channel {
    if (this.#isClosed) throw new ClosedError({ backend: 'etcd' })
    this.#channel ??= this.#connect()
    return this.#channel
  }

  #connect(): Channel {
    const { endpoints, tls } = this.access
    const index = this.#next % endpoints.length
    const { credentials, Client } = this.#grpc
    const pem = (text: string | undefined): Buffer | null => (text === undefined ? null : Buffer.from(text))
    const secure =
      tls === null
        ? credentials.createInsecure()
        : credentials.createSsl(pem(tls.ca), pem(tls.key), pem(tls.cert))
    const client = new Client(endpoints[index] as string, secure as never, CHANNEL_OPTIONS)
    return { index, client, streams: new Set(), answeredAt: monotonicMs() }
  }

  /** The member did not do what was asked. Where there are others, they are asked from now on. */
  #leave(channel: Channel): void {
    if (this.access.endpoints.length > 1) this.#abandon(channel)
  }

  /** A connection that is silent is left for another one, be it to the same server. */
  #abandon(channel: Channel): void {
    if (this.#channel !== channel) return
    this.#channel = null
    this.#next = channel.index + 1
    // They do not wait for the driver to notice.
    for (const end of channel.streams) end(null)
    channel.client.close()
  }

  async #ask<Q extends Fields, A extends Fields>(
    channel: Channel,
    method: Method<Q, A>,
    request: Sent<Q>,
    ms: number,
    token: string | null,
  ): Promise<Message<A>> {
    const sentAt = monotonicMs()
    let cancel = (): void => {}
    const answer = new Promise<Message<A>>((resolve, reject) => {
      const call = channel.client.makeUnaryRequest(
        method.path,
        (message) => method.request.encode(message as Sent<Q>),
        (bytes) => method.response.decode(bytes),
        request,
        this.#metadata(token),
        (error, value) => {
          if (error === null) channel.answeredAt = monotonicMs()
          if (error === null) resolve(value as Message<A>)
          else reject(error)
        },
      )
      cancel = () => call.cancel()
    })
    return await within(ms, answer, () => {
      cancel()
      if (channel.answeredAt < sentAt) this.#abandon(channel)
      return unanswered(method.isWrite, Math.round(ms))
    })
  }

  #metadata(token: string | null): GrpcMetadata {
    const metadata = new this.#grpc.Metadata()
    // A member that is cut off from the others then says so, instead of keeping the request until it is too late.
    metadata.set('hasleader', 'true')
    if (token !== null) metadata.set('token', token)
    return metadata
  }

  /** What proves who asks; null where nobody has to. */
  async #tokenFor(channel: Channel, endAt: number): Promise<string | null> {
    const { username, password } = this.access
    if (username === undefined) return null
    this.#token ??= this.#authenticate(channel, username, password ?? '', endAt)
    return await this.#token
  }

  async #authenticate(channel: Channel, name: string, password: string, endAt: number): Promise<string> {
    try {
      const ms = endAt - monotonicMs()
      return (await this.#ask(channel, AUTHENTICATE, { name, password }, ms, null)).token
    } catch (error) {
      this.#token = null
      if (error instanceof HoldfastError || fateOf(error) !== 'token') throw error
      throw etcdError(error, false)
    }
  }
}
