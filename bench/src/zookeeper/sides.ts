/** The two sides of a hand-over over ZooKeeper: processes of ours, or of Java with Apache Curator. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface, type Interface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { connect, type Hold, type Locks } from 'holdfast'
import { type Worker, withCrew, workAs } from '../crew.js'
import { machineMs } from '../redis/clock.js'

/** The first argument that makes the program a worker of these groups. */
export const ZOOKEEPER_WORKER_FLAG = '--zookeeper-worker'

/** Each call says when, by the monotonic clock of the machine: that it had the lock, or began to give it back. */
export interface Side {
  take(): Promise<unknown>
  giveBack(): Promise<number>
  wait(): Promise<number>
}

const NAME = 'handed-over'

class Workplace {
  held: Hold | null = null
  readonly locks: Promise<Locks>

  constructor(url: string) {
    this.locks = connect(url)
  }
}

const tasks = {
  async take(place: Workplace, _ask: null): Promise<void> {
    place.held = await (await place.locks).mutex(NAME).acquire()
  },
  async giveBack(place: Workplace, _ask: null): Promise<number> {
    const since = machineMs()
    await place.held?.release()
    return since
  },
  async wait(place: Workplace, _ask: null): Promise<number> {
    const hold = await (await place.locks).mutex(NAME).acquire()
    const got = machineMs()
    await hold.release()
    return got
  },
}

export async function workOnZookeeper(url: string): Promise<void> {
  await workAs(tasks, new Workplace(url))
}

function sideOf(worker: Worker<typeof tasks>): Side {
  return {
    take: () => worker.call('take', null),
    giveBack: () => worker.call('giveBack', null),
    wait: () => worker.call('wait', null),
  }
}

export type Sides = readonly [Side, Side]

export function withOurs<R>(url: string, use: (sides: Sides) => Promise<R>): Promise<R> {
  return withCrew<typeof tasks, R>({ flag: ZOOKEEPER_WORKER_FLAG, argument: url, size: 2 }, (crew) =>
    use(crew.map(sideOf) as unknown as Sides),
  )
}

const JARS = [
  'curator-client',
  'curator-framework',
  'curator-recipes',
  'zookeeper',
  'guava',
  'slf4j-api',
  'slf4j-nop',
]
const SOURCE = fileURLToPath(new URL('../java/CuratorWorker.java', import.meta.url))
const NS_PER_MS = 1e6

class CuratorSide implements Side {
  readonly #child: ChildProcess
  readonly #lines: Interface

  constructor(servers: string, path: string) {
    const classes = JARS.map((name) => `/usr/share/java/${name}.jar`).join(':')
    // The compiler of Java is left as it comes: a server of somebody's runs with it, too.
    this.#child = spawn('java', ['-cp', classes, SOURCE, servers, path], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#lines = createInterface({ input: this.#child.stdout as NonNullable<ChildProcess['stdout']> })
  }

  async #ask(word: string): Promise<number> {
    const answered = once(this.#lines, 'line')
    this.#child.stdin?.write(`${word}\n`)
    return Number((await answered)[0]) / NS_PER_MS
  }

  take(): Promise<number> {
    return this.#ask('take')
  }

  giveBack(): Promise<number> {
    return this.#ask('giveBack')
  }

  wait(): Promise<number> {
    return this.#ask('wait')
  }

  async end(): Promise<void> {
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }
}

export async function withCurator<R>(servers: string, use: (sides: Sides) => Promise<R>): Promise<R> {
  const sides = [
    new CuratorSide(servers, '/curator/handed-over'),
    new CuratorSide(servers, '/curator/handed-over'),
  ] as const
  try {
    return await use(sides)
  } finally {
    await Promise.all(sides.map((side) => side.end()))
  }
}
