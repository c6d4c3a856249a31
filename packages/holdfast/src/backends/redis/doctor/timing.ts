/** How far away a server is, and what its clock does. */

import type { Finding } from '../../../core/doctor.js'
import { compareClocks, measureLatency } from '../../shared/doctor/timing.js'
import type { RedisNode } from '../link.js'
import { ask, type ProbeRuntime } from './probe.js'

export async function checkLatency(node: RedisNode, runtime: ProbeRuntime): Promise<Finding[]> {
  return await measureLatency(() => ask(runtime, () => node.send(['PING'])), runtime.clock)
}

export async function checkClock(node: RedisNode, runtime: ProbeRuntime): Promise<Finding[]> {
  const read = async (): Promise<number | null> => {
    const answer = await ask(runtime, () => node.send(['TIME']))
    // That it is refused is among the rights.
    return 'refusal' in answer ? null : serverMs(answer.value)
  }
  return await compareClocks(read, runtime.clock, 'Leases last longer and fences may fall back.')
}

function serverMs(answer: unknown): number | null {
  if (!Array.isArray(answer) || answer.length !== 2) return null
  const ms = Number(answer[0]) * 1_000 + Number(answer[1]) / 1_000
  return Number.isFinite(ms) ? ms : null
}
