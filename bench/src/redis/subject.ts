/** The few functions behind which everybody takes part. */

/** Every lock lives this long unless it is given back, whoever made it. */
export const TTL_MS = 30_000

export type Release = () => Promise<unknown>

export interface LockClient {
  /** Takes the lock of this name and gives it back. */
  once(name: string): Promise<void>
  /** Takes it, however long that takes, and leaves giving it back to the caller. */
  take(name: string): Promise<Release>
  close(): Promise<void>
}

export interface Subject {
  readonly name: string
  readonly kind: 'raw' | 'ours' | 'peer'
  /** How long a waiting caller sleeps between two looks; 0 where it is told. */
  readonly pollMs: number
  open(port: number): Promise<LockClient>
}

/** The same two functions for all, so that what the benchmark itself costs is the same for all, too. */
export function lockClient<H>(
  acquire: (name: string) => Promise<H>,
  release: (held: H) => Promise<unknown>,
  close: () => Promise<void>,
): LockClient {
  return {
    async once(name) {
      await release(await acquire(name))
    },
    async take(name) {
      const held = await acquire(name)
      return () => release(held)
    },
    close,
  }
}
