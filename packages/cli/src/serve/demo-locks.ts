import { setMaxListeners } from 'node:events'
import { connect, type Locks } from 'holdfast'
import { pause } from '../interruption.js'

/** Long enough to be seen, short enough that something happens. */
const HOLD_MS = { least: 400, most: 5_000 }
const REST_MS = { least: 200, most: 3_000 }
/** Shorter than usual, so that what is not renewed is seen to end. */
const TTL_MS = 8_000

type Scene = (locks: Locks, signal: AbortSignal) => Promise<void>

const JOBS = [
  'deploy:shop',
  'deploy:api',
  'report:daily',
  'invoice:4711',
  'invoice:4712',
  'mailing:newsletter',
]
const NOTES = [
  'rolling out 2.14',
  'rolling back',
  'for accounting',
  'second try',
  'nightly',
  'asked for by support',
]

/** Who plays, each as a client of its own: then who waits for whom can be told from the owners. */
const CAST: readonly Scene[] = [
  ...Array.from({ length: 9 }, () => job),
  ...Array.from({ length: 6 }, () => catalogue),
  ...Array.from({ length: 5 }, () => thumbnails),
  lead,
  lead,
  backup,
  transfer('account:alice', 'account:bob'),
  transfer('account:bob', 'account:alice'),
]

/** Clients that take, wait, hand over and share, for as long as somebody wants to look at them. */
export class DemoLocks {
  readonly #clients: readonly Locks[]
  readonly #over = new AbortController()
  readonly #playing: readonly Promise<void>[]

  private constructor(clients: readonly Locks[]) {
    this.#clients = clients
    const { signal } = this.#over
    // Every pause of every player listens to it.
    setMaxListeners(0, signal)
    this.#playing = clients.map((locks, index) => play(CAST[index] ?? job, locks, signal))
  }

  static async open(url: string): Promise<DemoLocks> {
    return new DemoLocks(await Promise.all(CAST.map(() => connect(url, { ttlMs: TTL_MS }))))
  }

  /** Everything is given back before this settles. */
  async close(): Promise<void> {
    this.#over.abort()
    await Promise.all(this.#clients.map((locks) => locks.close()))
    await Promise.all(this.#playing)
  }
}

/** Plays a scene again and again. What goes wrong in one is part of it: a lock that was broken, a wait that was too long. */
async function play(scene: Scene, locks: Locks, signal: AbortSignal): Promise<void> {
  await pause(between({ least: 0, most: REST_MS.most }), signal)
  while (!signal.aborted) {
    try {
      await scene(locks, signal)
    } catch {
      // The next round begins anew.
    }
    await pause(between(REST_MS), signal)
  }
}

async function job(locks: Locks, signal: AbortSignal): Promise<void> {
  const lock = locks.mutex(pick(JOBS), { note: pick(NOTES) })
  await lock.run((hold) => pause(between(HOLD_MS), AbortSignal.any([signal, hold.signal])), {
    waitMs: 20_000,
  })
}

/** Many read, and now and then somebody writes. */
async function catalogue(locks: Locks, signal: AbortSignal): Promise<void> {
  const both = locks.readWrite('catalogue')
  const lock = Math.random() < 0.15 ? both.write() : both.read()
  await lock.run((hold) => pause(between(HOLD_MS), AbortSignal.any([signal, hold.signal])), {
    waitMs: 20_000,
  })
}

async function thumbnails(locks: Locks, signal: AbortSignal): Promise<void> {
  const lock = locks.semaphore('thumbnails', 4, { note: `image ${Math.ceil(Math.random() * 900)}` })
  await using hold = await lock.acquire({ permits: Math.random() < 0.2 ? 2 : 1, waitMs: 20_000 })
  await pause(between(HOLD_MS), AbortSignal.any([signal, hold.signal]))
}

async function lead(locks: Locks, signal: AbortSignal): Promise<void> {
  const lock = locks.mutex('leader:billing', { note: 'leads' })
  await lock.run(
    (hold) => pause(between({ least: 6_000, most: 12_000 }), AbortSignal.any([signal, hold.signal])),
    {
      waitMs: 60_000,
    },
  )
}

/** A fixed lease that nobody renews, so that its end can be watched. */
async function backup(locks: Locks, signal: AbortSignal): Promise<void> {
  const hold = await locks
    .mutex('backup:nightly', { note: 'a fixed lease', renew: false, ttlMs: TTL_MS })
    .acquire({ waitMs: 0 })
  await pause(TTL_MS * 2, AbortSignal.any([signal, hold.signal]))
}

/** Two of these take the same two locks in opposite orders, and so wait for each other until one gives up. */
function transfer(from: string, to: string): Scene {
  return async (locks, signal) => {
    await pause(between({ least: 0, most: 8_000 }), signal)
    await locks.mutex(from, { note: `${from} to ${to}` }).run(
      async (hold) => {
        await pause(1_500, AbortSignal.any([signal, hold.signal]))
        await locks
          .mutex(to)
          .run(() => pause(1_000, signal), { waitMs: between({ least: 5_000, most: 9_000 }) })
      },
      { waitMs: 20_000 },
    )
  }
}

function pick(from: readonly string[]): string {
  return from[Math.floor(Math.random() * from.length)] ?? ''
}

function between({ least, most }: { readonly least: number; readonly most: number }): number {
  return Math.round(least + Math.random() * (most - least))
}
