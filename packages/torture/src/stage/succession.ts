/** Another server that takes the place of the first one: it has the same data, and clients reach it by the same address. */

import type { ServerProcess, Standby, TcpProxy } from 'holdfast-servers'
import type { Keep } from './assemble.js'
import { oneOf } from './relays.js'
import { randomClockStep, type Server } from './server-faults.js'
import type { Ongoing, Random, StageFault } from './stage.js'

/** The server that is behind an address at the moment. Other faults happen to whichever that is. */
export class Succession<S extends ServerProcess> implements Server {
  #current: S

  constructor(first: S) {
    this.#current = first
  }

  get current(): S {
    return this.#current
  }

  set current(next: S) {
    this.#current = next
  }

  get running(): boolean {
    return this.#current.running
  }

  kill(): Promise<void> {
    return this.#current.kill()
  }

  restart(): Promise<void> {
    return this.#current.restart()
  }

  pause(): Promise<void> {
    return this.#current.pause()
  }

  resume(): Promise<void> {
    return this.#current.resume()
  }

  stepClock(ms: number): void {
    this.#current.stepClock(ms)
  }
}

export interface SuccessionOptions<S extends ServerProcess> {
  /** How servers are called in targets, such as `redis`. */
  readonly what: string
  readonly ttlMs: number
  readonly keep: Keep
  /** Starts a server that follows the given one. */
  readonly startStandby: (current: S) => Promise<Standby<S>>
}

/**
 * A standby that has everything is promoted, and the first server is gone for good. Some connections are closed, others stay
 * open at the client without a word (half-open); new ones reach the new server. Nothing that was answered is lost.
 */
export function swapFault<S extends ServerProcess>(
  places: readonly Succession<S>[],
  relays: readonly TcpProxy[],
  options: SuccessionOptions<S>,
): StageFault {
  return {
    name: 'server-swap',
    lastsMs: [300, 4 * options.ttlMs],
    begin: async (random): Promise<Ongoing> => {
      const { index, end } = await takeOver(places, relays, random, options)
      return { target: `${options.what}:${index}`, end }
    },
  }
}

/** The same with a standby whose wall clock differs from that of the first server. The end of the fault corrects the clock. */
export function failoverClockFault<S extends ServerProcess>(
  places: readonly Succession<S>[],
  relays: readonly TcpProxy[],
  options: SuccessionOptions<S>,
): StageFault {
  const { what, ttlMs } = options
  return {
    name: 'failover-clock',
    lastsMs: [300, 2 * ttlMs],
    begin: async (random): Promise<Ongoing> => {
      const stepMs = randomClockStep(ttlMs, random)
      const { index, server, end } = await takeOver(places, relays, random, {
        ...options,
        startStandby: async (current) => {
          const standby = await options.startStandby(current)
          standby.server.stepClock(stepMs)
          return standby
        },
      })
      return {
        target: `${what}:${index} ${stepMs > 0 ? '+' : ''}${stepMs} ms`,
        end: async () => {
          server.stepClock(-stepMs)
          await end()
        },
      }
    },
  }
}

async function takeOver<S extends ServerProcess>(
  places: readonly Succession<S>[],
  relays: readonly TcpProxy[],
  random: Random,
  { startStandby, keep }: SuccessionOptions<S>,
): Promise<{ readonly index: number; readonly server: S; readonly end: () => Promise<void> }> {
  const { chosen: place, index } = oneOf(places, random)
  const { chosen: relay } = oneOf(relays.slice(index, index + 1), random)
  const old = place.current
  const standby = await startStandby(old)
  const server = keep(standby.server)
  // From here on no client gets an answer, so that the standby has everything that was answered.
  relay.hold(true)
  try {
    await standby.inStep()
    await old.kill()
    await standby.promote()
    place.current = server
    relay.redirect(server.port)
    relay.halfOpen(() => random() < 0.5)
    relay.cut(({ isHalfOpen }) => !isHalfOpen)
  } finally {
    relay.hold(false)
  }
  return {
    index,
    server,
    end: async () => {
      relay.cut(({ isHalfOpen }) => isHalfOpen)
      await old.dispose()
    },
  }
}
