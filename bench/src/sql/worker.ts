/** What the two processes of a hand-over over a database do. */

import { connect, type Hold, type Locks } from 'holdfast'
import pg from 'pg'
import { type Worker, withCrew, workAs } from '../crew.js'
import { machineMs } from '../redis/clock.js'

/** The first argument that makes the program a worker of the database groups. */
export const SQL_WORKER_FLAG = '--sql-worker'

const NAME = 'handed over'

class Workplace {
  readonly url: string
  held: Hold | null = null
  #locks: Promise<Locks> | null = null
  #line: Promise<pg.Client> | null = null

  constructor(url: string) {
    this.url = url
  }

  locks(): Promise<Locks> {
    this.#locks ??= connect(`${this.url}?recipe=rows`)
    return this.#locks
  }

  /** A connection that listens, for the bare exchange of messages. */
  line(channel: string): Promise<pg.Client> {
    this.#line ??= listen(this.url, channel)
    return this.#line
  }
}

async function listen(url: string, channel: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(`LISTEN ${channel}`)
  return client
}

const tasks = {
  async take(place: Workplace, _ask: null): Promise<void> {
    place.held = await (await place.locks()).mutex(NAME).acquire()
  },
  /** Says when it began to give the lock back. */
  async giveBack(place: Workplace, _ask: null): Promise<number> {
    const since = machineMs()
    await place.held?.release()
    return since
  },
  /** Says when it had the lock, which it gives back at once. */
  async wait(place: Workplace, _ask: null): Promise<number> {
    const hold = await (await place.locks()).mutex(NAME).acquire()
    const got = machineMs()
    await hold.release()
    return got
  },
  /** Takes the lock again and again beside others for a while, and says when it had it and when it gave it back. */
  async contend(place: Workplace, ms: number): Promise<readonly (readonly [got: number, gave: number])[]> {
    const mutex = (await place.locks()).mutex(NAME)
    const held: (readonly [number, number])[] = []
    const until = machineMs() + ms
    while (machineMs() < until) {
      const hold = await mutex.acquire()
      const got = machineMs()
      held.push([got, machineMs()])
      await hold.release()
    }
    return held
  },
  /** From now on answers every ping with a pong. */
  async answer(place: Workplace, _ask: null): Promise<void> {
    const client = await place.line('ping')
    client.on('notification', () => void client.query("SELECT pg_notify('pong', '')"))
  },
  async ping(place: Workplace, _ask: null): Promise<number> {
    const client = await place.line('pong')
    const since = machineMs()
    const answered = new Promise<number>((resolve) => {
      client.once('notification', () => resolve(machineMs() - since))
    })
    await client.query("SELECT pg_notify('ping', '')")
    return await answered
  },
}

export type SqlWorker = Worker<typeof tasks>

export async function workOnSql(url: string): Promise<void> {
  await workAs(tasks, new Workplace(url))
}

export function withSqlCrew<R>(
  url: string,
  use: (crew: readonly [SqlWorker, SqlWorker]) => Promise<R>,
): Promise<R> {
  return withCrew<typeof tasks, R>({ flag: SQL_WORKER_FLAG, argument: url, size: 2 }, (crew) =>
    use(crew as unknown as readonly [SqlWorker, SqlWorker]),
  )
}
