/** What the other side of a wait keeps. */

import type { Hold, Locks } from 'holdfast'
import type { Library } from '../subject.js'
import { deferred } from '../waiting.js'
import { type Held, targetOf } from './lifetime-cases.js'

/** Holds, and returns what ends it. `client` and `library` are those of the other side. */
export async function holdAs(
  held: Held,
  name: string,
  client: Locks,
  { idempotency }: Library,
  recordsUrl: string | null,
): Promise<() => Promise<void>> {
  if (held === 'run' && recordsUrl !== null) {
    const records = await idempotency.connectIdempotency(recordsUrl)
    const gate = deferred<string>()
    const begun = deferred<void>()
    const work = (): Promise<string> => {
      begun.resolve()
      return gate.promise
    }
    const running = records.run(targetOf(name), work)
    await Promise.race([begun.promise, running])
    return async () => {
      gate.resolve('first')
      await running
      await records.close()
    }
  }
  const holds = await acquireAll(held, name, client)
  return async () => {
    await Promise.all(holds.map((hold) => hold.release()))
  }
}

async function acquireAll(held: Held, name: string, client: Locks): Promise<readonly Hold[]> {
  switch (held) {
    case 'write':
      return [await client.readWrite(name).write().acquire()]
    case 'semaphore': {
      const permits = client.semaphore(name, 2)
      return [await permits.acquire(), await permits.acquire()]
    }
    case 'second of two':
      return [await client.mutex(`${name}-2`).acquire()]
    case 'leader':
      return [await client.election(name).campaign()]
    case 'mutex':
    case 'run':
      return [await client.mutex(name).acquire()]
    case 'none':
      return []
  }
}
