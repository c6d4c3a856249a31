/** What is true of every stage, tried on the stages of one family of stores. */

import { randomUUID } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { connect as open } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'holdfast'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stageDefinitions } from '../../src/stage/definitions.js'
import type { FaultName, Stage, StageDefinition } from '../../src/stage/stage.js'

/** What a family's stages must offer, so that a fault that silently is not there is noticed. */
export interface Expected {
  readonly store: string
  readonly recipe: string
  readonly faults: readonly FaultName[]
  /** Leaves something in the store that no client keeps any more, and gives back what takes it away. */
  readonly plant?: (stage: Stage) => Promise<() => Promise<void>>
}

export const NETWORK: readonly FaultName[] = [
  'cut',
  'drop-requests',
  'drop-replies',
  'delay',
  'late',
  'half-open',
]

/** While one of these is on, nobody gets a lock at a store that is one server. */
const SILENT: readonly FaultName[] = [
  'cut',
  'drop-requests',
  'drop-replies',
  'late',
  'server-kill',
  'server-pause',
]

const LOCK_MS = 60_000

export function describeStages(expected: readonly Expected[]): void {
  for (const each of expected) {
    const definition = stageDefinitions.find(
      ({ store, recipe }) => store === each.store && recipe === each.recipe,
    )
    const title = `${each.store} ${each.recipe}`
    if (definition === undefined) throw new Error(`There is no stage ${title}.`)
    const missing = definition.missing()
    if (missing === null) describe(title, () => stageTests(definition, each))
    else if (process.env['HOLDFAST_REQUIRE_STORES'] === 'all') throw new Error(`${title}: ${missing}.`)
    else it.skip(`${title} (not run: ${missing})`)
  }
}

function stageTests(definition: StageDefinition, { faults, plant }: Expected): void {
  let stage: Stage
  beforeAll(async () => {
    stage = await definition.start()
  })
  afterAll(() => stage?.dispose())

  it('says what it is, and lets a lock be taken', async () => {
    expect([stage.store, stage.recipe]).toEqual([definition.store, definition.recipe])
    expect(stage.guarantees.ttlMinMs).toBeLessThanOrEqual(stage.ttlMs)
    expect(stage.guarantees.ttlMaxMs).toBeGreaterThanOrEqual(stage.ttlMs)
    expect(stage.freedWithinMs).toBeGreaterThan(stage.ttlMs)
    expect(stage.faults.map(({ name }) => name).sort()).toEqual([...faults].sort())
    await canLock(stage)
  })

  for (const name of faults) {
    it(`has the fault ${name}, which ends`, async () => {
      const fault = stage.faults.find((each) => each.name === name)
      if (fault === undefined) throw new Error(`${name} is not there`)
      const ongoing = await fault.begin(randomOf(name))
      expect(ongoing.target).toMatch(/^[a-z-]+:(\d+|\*)/)
      const attempt = canLock(stage).then(
        () => 'locked',
        () => 'failed',
      )
      const early = await Promise.race([attempt, sleep(Math.max(200, fault.lastsMs[0]), 'waiting')])
      if (SILENT.includes(name) && portsOf(stage.url).length === 1) expect(early).not.toBe('locked')
      await ongoing.end()
      await attempt
      await canLock(stage)
    })
  }

  if (faults.includes('late')) {
    it('has no way past its relays', async () => {
      const late = stage.faults.find(({ name }) => name === 'late')
      // With these numbers it concerns all relays.
      const ongoing = await late?.begin(() => 0.1)
      const attempt = canLock(stage)
      // A client that found the servers by themselves would need a fraction of this.
      expect(
        await Promise.race([attempt, sleep(portsOf(stage.url).length > 1 ? 2_000 : 200, 'waiting')]),
      ).toBe('waiting')
      await ongoing?.end()
      await attempt
    })
  }

  it('has nothing left after clean use', async () => {
    // The attempts above were made in this process, and grpc-js may connect once more after it was closed in between.
    const cut = stage.faults.find(({ name }) => name === 'cut')
    await (await cut?.begin(() => 0))?.end()
    await canLock(stage)
    await expect.poll(() => stage.leftovers(), POLL).toEqual([])
  })

  it('finds a client that is still there', async () => {
    const locks = await connect(stage.url)
    const hold = await locks.mutex('still-there').acquire({ ttlMs: stage.ttlMs, waitMs: LOCK_MS })
    expect(await stage.leftovers()).not.toEqual([])
    await hold.release()
    await locks.close()
    await expect.poll(() => stage.leftovers(), POLL).toEqual([])
  })

  if (plant !== undefined) {
    it('finds what nobody keeps any more', async () => {
      const remove = await plant(stage)
      expect(await stage.leftovers()).not.toEqual([])
      await remove()
      await expect.poll(() => stage.leftovers(), POLL).toEqual([])
    })
  }

  it('leaves nothing behind, also while faults are on', async () => {
    const [processes, ports] = [childProcesses(), portsOf(stage.url)]
    const folders = processes.map(folderOf).filter((folder) => folder !== '/')
    for (const name of ['late', 'server-kill'] as const) {
      await stage.faults.find((fault) => fault.name === name)?.begin(() => 0)
    }
    await stage.dispose()
    await stage.dispose()
    await expect.poll(() => childProcesses().filter((pid) => processes.includes(pid)), POLL).toEqual([])
    expect(folders.filter((folder) => existsSync(folder))).toEqual([])
    for (const port of ports) expect(await isOpen(port)).toBe(false)
    const [first] = stage.faults
    if (first !== undefined) await expect(first.begin(() => 0)).rejects.toThrow('disposed')
  })
}

const POLL = { timeout: 30_000, interval: 50 }

/** A fresh client takes a lock and gives it back. A store may need a while to be itself again. */
async function canLock({ url, ttlMs }: Stage): Promise<void> {
  const locks = await connect(url, { outageMs: LOCK_MS })
  try {
    const hold = await locks.mutex(`try-${randomUUID()}`).acquire({ ttlMs, waitMs: LOCK_MS })
    await hold.release()
  } finally {
    await locks.close()
  }
}

/** The same numbers in every run, and others for each name. */
function randomOf(name: string): () => number {
  let state = Array.from(name).reduce((sum, letter) => sum * 31 + letter.charCodeAt(0), 7) % 2_147_483_647
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

/** The processes that this one has started and that have not ended. */
function childProcesses(): readonly string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      return state !== 'Z' && parent === String(process.pid)
    } catch {
      return false
    }
  })
}

function folderOf(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return '/'
  }
}

/** The first port of the stage. */
export function portOf({ url }: Stage): number {
  const [port] = portsOf(url)
  if (port === undefined) throw new Error('The URL has no port.')
  return port
}

function portsOf(url: string): readonly number[] {
  return [...url.matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, port]) => Number(port))
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = open({ host: '127.0.0.1', port })
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
