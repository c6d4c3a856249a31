/** What Holdfast needs of `@grpc/grpc-js`, so that neither the code nor its types depend on the package. */

export interface GrpcMetadata {
  set(name: string, value: string): void
}

/** What a call that failed rejects with. */
export interface GrpcError extends Error {
  readonly code: number
  readonly details: string
}

export interface GrpcCall {
  cancel(): void
}

export interface GrpcStream extends GrpcCall {
  write(message: unknown): boolean
  end(): void
  on(event: 'data', listener: (message: unknown) => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'end', listener: () => void): unknown
}

type Serialize = (message: unknown) => Buffer
type Deserialize = (bytes: Buffer) => unknown

export interface GrpcClient {
  makeUnaryRequest(
    path: string,
    serialize: Serialize,
    deserialize: Deserialize,
    message: unknown,
    metadata: GrpcMetadata,
    callback: (error: Error | null, answer?: unknown) => void,
  ): GrpcCall
  makeBidiStreamRequest(
    path: string,
    serialize: Serialize,
    deserialize: Deserialize,
    metadata: GrpcMetadata,
  ): GrpcStream
  close(): void
}

/** The module itself. */
export interface Grpc {
  readonly Client: new (address: string, credentials: never, options?: Record<string, unknown>) => GrpcClient
  readonly Metadata: new () => GrpcMetadata
  readonly credentials: {
    createInsecure(): unknown
    createSsl(ca?: Buffer | null, key?: Buffer | null, certificate?: Buffer | null): unknown
  }
}

/** Where the servers are, and who asks. */
export interface EtcdAccess {
  /** `host:port` of each member; an IPv6 address stands in brackets. */
  readonly endpoints: readonly string[]
  readonly tls: EtcdTls | null
  readonly username: string | undefined
  readonly password: string | undefined
}

/** Texts in PEM form. What is left out is the system's own, or none. */
export interface EtcdTls {
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
}
