/**
 * What Holdfast needs of a Redis client. The clients of `ioredis` (single, Sentinel and Cluster) and of `redis`, also
 * known as node-redis (`createClient`, `createSentinel`, `createCluster`), all meet it as they are.
 */

/** `new Redis(…)` of ioredis, for a single server or behind Sentinel. */
export interface IoredisClient {
  readonly isCluster: boolean
  /** The socket of the present connection. */
  readonly stream?: IoredisStream | undefined
  readonly options: { readonly keyPrefix?: string | undefined }
  call(command: string, args: string[]): Promise<unknown>
  pipeline(commands: unknown[][]): { exec(): Promise<unknown> }
  duplicate(override?: object): IoredisClient
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  on(event: string, listener: (...values: string[]) => void): unknown
  off(event: string, listener: (...values: string[]) => void): unknown
  disconnect(): void
}

export interface IoredisStream {
  readonly remoteAddress?: string | undefined
  readonly remotePort?: number | undefined
  cork(): void
  uncork(): void
}

/** `new Redis.Cluster(…)` of ioredis. */
export interface IoredisCluster {
  readonly isCluster: boolean
  readonly options: { readonly keyPrefix?: string | undefined }
  /** For each slot the addresses of its nodes, master first. */
  readonly slots: readonly (readonly string[] | undefined)[]
  call(command: string, args: string[]): Promise<unknown>
  nodes(role: 'master'): IoredisNode[]
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  on(event: string, listener: (...values: string[]) => void): unknown
  off(event: string, listener: (...values: string[]) => void): unknown
  disconnect(): void
}

/** One master of an ioredis cluster. */
export interface IoredisNode {
  readonly options: { readonly host?: string | undefined; readonly port?: number | undefined }
  call(command: string, args: string[]): Promise<unknown>
  pipeline(commands: unknown[][]): { exec(): Promise<unknown> }
}

/** `createClient()` of node-redis, connected. */
export interface NodeRedisClient {
  readonly isOpen: boolean
  sendCommand(args: string[]): Promise<unknown>
  duplicate(): NodeRedisClient
  connect(): Promise<unknown>
  subscribe(channel: string, listener: (message: string, channel: string) => unknown): Promise<unknown>
  on(event: string, listener: (...values: string[]) => void): unknown
  destroy(): unknown
}

/** `createSentinel()` of node-redis, connected. */
export interface NodeRedisSentinel {
  readonly isOpen: boolean
  sendCommand(isReadonly: boolean, args: string[]): Promise<unknown>
  use<T>(
    work: (client: { sendCommand(isReadonly: boolean, args: string[]): Promise<unknown> }) => Promise<T>,
  ): Promise<T>
  getMasterNode(): unknown
  subscribe(channel: string, listener: (message: string, channel: string) => unknown): Promise<unknown>
  /** It takes the listener that was subscribed; its own type for that is generic in a way that nothing else matches. */
  unsubscribe(channel: string, listener?: never): Promise<unknown>
  destroy(): unknown
}

/** `createCluster()` of node-redis, connected. */
export interface NodeRedisCluster {
  readonly isOpen: boolean
  readonly masters: readonly unknown[]
  readonly slots: readonly ({ readonly master: unknown } | undefined)[]
  sendCommand(key: string, isReadonly: boolean, args: string[]): Promise<unknown>
  nodeClient(node: never): Promise<{ sendCommand(args: string[]): Promise<unknown> }>
  subscribe(channel: string, listener: (message: string, channel: string) => unknown): Promise<unknown>
  /** It takes the listener that was subscribed; its own type for that is generic in a way that nothing else matches. */
  unsubscribe(channel: string, listener?: never): Promise<unknown>
  destroy(): unknown
}

/** A ready client of either library. Its connection, its options and its end stay with whoever made it. */
export type RedisClient =
  | IoredisClient
  | IoredisCluster
  | NodeRedisClient
  | NodeRedisSentinel
  | NodeRedisCluster

/** The two libraries, by the names of their packages. */
export type RedisDriverName = 'ioredis' | 'redis'
