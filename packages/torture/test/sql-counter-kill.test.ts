// @module-tag fencing
// @module-tag exclusion
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { atDepth } from '../../../test/support/depth.js'
import type { Acknowledged, Setback } from '../src/workers/fenced-counter.js'
import { FencedLog } from '../src/workers/shared/fenced-log.js'
import { Children } from './children.js'
import { endConnections, type SqlTarget, sqlTargets } from './sql-recipes.js'

const PROCESSES = atDepth(3, 6)
/** A dead holder of a lease, and a dead waiter, are in the way for this long. */
const TTL_MS = 1_000
const ROUND = ['kill', 'end connections', 'kill', 'restart the server'] as const
const STRIKES = atDepth<readonly (typeof ROUND)[number][]>(ROUND, [...ROUND, ...ROUND, ...ROUND])
/** So many additions by processes that live show that the others go on. */
const PROGRESS = 5
/** A busy machine is not a fault; a good run needs a second or two. */
const PROGRESS_MS = 120_000

let folder: string
let children: Children

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-sql-kill-'))
  children = new Children()
})

afterEach(async () => {
  await children.stopAll()
  await rm(folder, { recursive: true, force: true })
})

/** What the log says, read on and on. */
class History {
  readonly values: number[] = []
  readonly operations: string[] = []
  readonly fences: bigint[] = []
  refused = 0
  /** Who opened last, and so most likely holds. */
  lastPid = 0
  readonly #log: FencedLog

  constructor(path: string) {
    this.#log = new FencedLog(path, (record, counts) => {
      if (!counts) {
        this.refused += 1
        return
      }
      this.fences.push(record.fence)
      if (record.kind === 'open') {
        this.lastPid = record.pid
      } else {
        this.values.push(record.value)
        this.operations.push(record.operation)
      }
    })
  }

  catchUp(): void {
    this.#log.catchUp()
  }

  close(): void {
    this.#log.close()
  }
}

class Run {
  readonly acknowledged: string[] = []
  readonly setbacks = new Map<string, number>()
  readonly history: History
  /** How long nobody got on after each strike. */
  readonly gapsMs: number[] = []
  killed = 0
  readonly #target: SqlTarget
  readonly #logPath: string
  #starting = Promise.resolve()

  constructor(target: SqlTarget) {
    this.#target = target
    this.#logPath = join(folder, 'log')
    this.history = new History(this.#logPath)
  }

  /** Settles when it has connected: from then on nothing that happens to the server is news to it. */
  async start(): Promise<void> {
    const args = [this.#target.url, this.#logPath, TTL_MS]
    const child = children.start('fenced-counter', args, (message) => {
      const heard = message as Acknowledged | Setback
      if (heard.kind === 'acknowledged') this.acknowledged.push(heard.operation)
      else if (heard.kind === 'setback')
        this.setbacks.set(heard.code, (this.setbacks.get(heard.code) ?? 0) + 1)
    })
    await child.hear('ready')
  }

  async strike(kind: (typeof STRIKES)[number]): Promise<void> {
    const { server } = this.#target
    await this.#starting
    if (kind === 'end connections') {
      await endConnections(this.#target)
    } else if (kind === 'restart the server') {
      await server.kill()
      await server.restart()
    } else {
      this.history.catchUp()
      await children.running.find(({ pid }) => pid === this.history.lastPid)?.kill()
      this.killed += 1
      this.#starting = this.start()
    }
  }

  async stop(): Promise<void> {
    await this.#starting
    await children.stopAll()
    this.history.catchUp()
    this.history.close()
  }

  /** Until others than the dead have added something. */
  async progress(): Promise<void> {
    const since = performance.now()
    const living = (): number => {
      this.history.catchUp()
      const pids = new Set(children.running.map(({ pid }) => String(pid)))
      return this.history.operations.filter((operation) => pids.has(operation.split('-')[0] ?? '')).length
    }
    const before = living()
    let first: number | null = null
    for (;;) {
      const added = living() - before
      if (added > 0) first ??= performance.now() - since
      if (added >= PROGRESS) break
      // A worker that complains is a defect, whatever it is.
      expect(children.errors).toBe('')
      expect(performance.now() - since, 'somebody goes on').toBeLessThan(PROGRESS_MS)
      await sleep(5)
    }
    this.gapsMs.push(first ?? 0)
  }
}

describe.each(await sqlTargets())('a counter under fire: $title', (target) => {
  it('loses nothing that was acknowledged, counts nothing twice, and goes on', async () => {
    const run = new Run(target)
    await Promise.all(Array.from({ length: PROCESSES }, () => run.start()))
    await run.progress()
    for (const kind of STRIKES) {
      await run.strike(kind)
      await run.progress()
    }
    await run.stop()
    expect(children.errors).toBe('')
    const { values, operations, fences, refused } = run.history

    expect(values).toEqual(values.map((_, index) => index + 1))
    expect(fences.every((fence, index) => index === 0 || fence >= (fences[index - 1] as bigint))).toBe(true)
    expect(new Set(operations).size).toBe(operations.length)
    const known = new Set(operations)
    expect(run.acknowledged.filter((operation) => !known.has(operation))).toEqual([])
    // Of each process at most its last addition can be in doubt: the one during which it was killed.
    expect(operations.length - run.acknowledged.length).toBeLessThanOrEqual(run.killed + PROCESSES)
    expect(run.killed).toBe(STRIKES.filter((kind) => kind === 'kill').length)
    const troubles = [...run.setbacks].map(([code, times]) => `${code} ${times}`).join(', ')
    const gaps = STRIKES.map((kind, index) => `${kind} ${Math.round(run.gapsMs[index + 1] ?? 0)}`).join(', ')
    console.log(
      `sql-counter-kill: ${target.title}: ${operations.length} additions, ${refused} stale lines refused; ` +
        `ms until the next addition: ${gaps}; setbacks: ${troubles || 'none'}`,
    )
  }, 600_000)
})
