/** The store of one process. Its workers can only be callers of that process, and nothing else can fail. */

import { randomUUID } from 'node:crypto'
import { startStage } from './assemble.js'
import { namesInUse } from './names-in-use.js'
import type { Stage, StageDefinition } from './stage.js'

const TTL_MS = 1_000

export const memoryDefinitions: readonly StageDefinition[] = [
  { store: 'memory', recipe: 'line', missing: () => null, start },
]

function start(): Promise<Stage> {
  return startStage(async () => {
    const url = `memory:stage-${randomUUID()}`
    return {
      store: 'memory',
      recipe: 'line',
      url,
      ttlMs: TTL_MS,
      freedWithinMs: TTL_MS + 1_000,
      faults: [],
      leftovers: () => namesInUse(url),
    }
  })
}
