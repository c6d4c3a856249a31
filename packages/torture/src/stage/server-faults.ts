/** What can be done to servers. Each of these leaves them as it found them. */

import type { ServerProcess } from 'holdfast-servers'
import { oneOf } from './relays.js'
import type { Ongoing, Random, StageFault } from './stage.js'

/** What all servers have that a fault needs. */
export type Server = Pick<ServerProcess, 'kill' | 'restart' | 'pause' | 'resume' | 'stepClock' | 'running'>

/** How servers are called in targets, such as `redis`. */
export interface ServerFaultOptions {
  readonly what: string
  readonly ttlMs: number
  /** What is waited for when the fault is over. */
  readonly settled?: () => Promise<void>
}

/** A crash, and a start on the same port with the same data. */
export function killFault(
  servers: readonly Server[],
  { what, ttlMs, settled = nothing }: ServerFaultOptions,
): StageFault {
  return {
    name: 'server-kill',
    lastsMs: [50, 2 * ttlMs],
    begin: async (random): Promise<Ongoing> => {
      const { chosen, index } = oneOf(servers, random)
      await chosen.kill()
      return {
        target: `${what}:${index}`,
        end: async () => {
          await chosen.restart()
          await settled()
        },
      }
    },
  }
}

/** It stands still, as in a long pause of its machine: connections stay open, and what is sent to it is answered later. */
export function pauseFault(
  servers: readonly Server[],
  { what, ttlMs, settled = nothing }: ServerFaultOptions,
): StageFault {
  return {
    name: 'server-pause',
    lastsMs: [100, 2.5 * ttlMs],
    begin: async (random): Promise<Ongoing> => {
      const { chosen, index } = oneOf(servers, random)
      await chosen.pause()
      return {
        target: `${what}:${index}`,
        end: async () => {
          // One that somebody ended meanwhile needs nothing more.
          if (chosen.running) await chosen.resume()
          await settled()
        },
      }
    },
  }
}

/** How far a clock is set, in leases: so far that what is held looks as if it were over. */
const STEP_TTLS = 2
const FORWARD_SHARE = 0.7

/** By how much the clock faults can make what a dead client held last longer. */
export function clockStepMs(ttlMs: number): number {
  return STEP_TTLS * ttlMs
}

/** By how much a clock is set: mostly forward, which ends leases early. */
export function randomClockStep(ttlMs: number, random: Random): number {
  return clockStepMs(ttlMs) * (random() < FORWARD_SHARE ? 1 : -1)
}

/** Somebody sets the wall clock of a server, mostly forward, and later puts it right. */
export function clockFault(
  servers: readonly Pick<Server, 'stepClock'>[],
  { what, ttlMs }: ServerFaultOptions,
): StageFault {
  return {
    name: 'clock',
    lastsMs: [100, ttlMs],
    begin: async (random): Promise<Ongoing> => {
      const { chosen, index } = oneOf(servers, random)
      const step = randomClockStep(ttlMs, random)
      chosen.stepClock(step)
      return {
        target: `${what}:${index} ${step > 0 ? '+' : ''}${step} ms`,
        end: async () => chosen.stepClock(-step),
      }
    },
  }
}

/** Servers of which one leads. */
export interface Group<S extends Server> {
  readonly servers: readonly S[]
  /** Who leads now; one of them, where several do. */
  readonly leader: (random: Random) => Promise<S>
  readonly settled: () => Promise<void>
}

/** Long enough for the others to choose another one. */
export const FAILOVER_MS = [3_000, 6_000] as const

/** The leader crashes and comes back when another one leads. */
export function failoverFault<S extends Server>(
  { servers, leader, settled }: Group<S>,
  what: string,
): StageFault {
  return {
    name: 'failover',
    lastsMs: FAILOVER_MS,
    begin: async (random): Promise<Ongoing> => {
      const chosen = await leader(random)
      await chosen.kill()
      return {
        target: `${what}:${servers.indexOf(chosen)}`,
        end: async () => {
          await chosen.restart()
          await settled()
        },
      }
    },
  }
}

async function nothing(): Promise<void> {}
