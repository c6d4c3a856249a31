/** The package has types, but its exports do not name them. What is used of it here is this. */
declare module 'redlock' {
  import type { EventEmitter } from 'node:events'
  import type { Redis } from 'ioredis'

  export interface Settings {
    readonly retryCount: number
    readonly retryDelay: number
    readonly retryJitter: number
  }

  export interface Lock {
    release(): Promise<unknown>
  }

  class Redlock extends EventEmitter {
    constructor(clients: Iterable<Redis>, settings?: Partial<Settings>)
    acquire(resources: string[], duration: number): Promise<Lock>
  }

  export { Redlock as default }
}
