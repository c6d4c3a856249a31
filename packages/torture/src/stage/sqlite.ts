/**
 * SQLite has no server and no network: what can go wrong are the processes, which are the nemesis' own, and the wall clock
 * that they have. Leases go by the monotonic clock, so a step of it must free nothing.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeClock } from 'holdfast-servers'
import { startStage } from './assemble.js'
import { namesInUse } from './names-in-use.js'
import { hasClocks } from './programs.js'
import { clockFault } from './server-faults.js'
import type { Stage, StageDefinition } from './stage.js'

const TTL_MS = 1_000

export const sqliteDefinitions: readonly StageDefinition[] = [
  { store: 'sqlite', recipe: 'line', missing: () => null, start: startSqlite },
]

function startSqlite(): Promise<Stage> {
  return startStage(async (keep) => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-stage-sqlite-'))
    keep({ dispose: () => rm(folder, { recursive: true, force: true }) })
    const url = `sqlite:${join(folder, 'locks.db')}`
    const clock = hasClocks() ? await makeClock(folder) : null
    const workers = { stepClock: (ms: number) => clock?.step(ms) }
    return {
      store: 'sqlite',
      recipe: 'line',
      url,
      ttlMs: TTL_MS,
      freedWithinMs: TTL_MS + 1_000,
      ...(clock === null ? {} : { env: clock.env }),
      faults: clock === null ? [] : [clockFault([workers], { what: 'workers', ttlMs: TTL_MS })],
      leftovers: () => namesInUse(url),
    }
  })
}
