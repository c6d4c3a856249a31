/** The relays between the workers and the servers, and what a network can do at them. */

import { startProxy, type TcpProxy } from 'holdfast-servers'
import type { Keep } from './assemble.js'
import type { Leftover, Ongoing, Random, StageFault } from './stage.js'

/** Slow, and yet within what a lease allows for. */
const DELAY_MS = [5, 150] as const

/** One relay for each server. */
export async function startRelays(
  keep: Keep,
  servers: readonly { readonly port: number }[],
): Promise<readonly TcpProxy[]> {
  return await Promise.all(servers.map(async ({ port }) => keep(await startProxy(port))))
}

/** The part of a URL that names the relays. */
export function relayAddresses(relays: readonly TcpProxy[]): string {
  return relays.map(({ port }) => `127.0.0.1:${port}`).join(',')
}

/** The URL of a server, but through the relays before it. */
export function throughRelay(url: string, relays: readonly TcpProxy[]): string {
  return url.replace(/127\.0\.0\.1:\d+/, relayAddresses(relays))
}

/** Clients that have not left. Whether a server has noticed that one did is its own affair, and seen at the server. */
export function openConnections(relays: readonly TcpProxy[]): readonly Leftover[] {
  return relays.flatMap((relay, index) =>
    Array.from({ length: relay.clients }, (_, nth) => ({
      what: 'connection',
      name: `relay:${index} ${nth + 1}`,
    })),
  )
}

export interface NetworkOptions {
  readonly ttlMs: number
  /**
   * Whether what clients have sent may be sent once more. What a session keeps does not end by itself, so a store with
   * sessions relies on it that nobody sends a request that was answered again; nothing on the way to it does.
   */
  readonly duplicate: boolean
}

/** Everything that a network does to those who use it. The connections at a relay fare alike. */
export function networkFaults(
  relays: readonly TcpProxy[],
  { ttlMs, duplicate }: NetworkOptions,
): readonly StageFault[] {
  const short = [100, 2.5 * ttlMs] as const
  const long = [ttlMs, 2.5 * ttlMs] as const
  const faults: StageFault[] = [
    atRelays(relays, 'cut', short, (relay) => {
      relay.refuse(true)
      relay.cut()
      return () => relay.refuse(false)
    }),
    atRelays(relays, 'drop-requests', short, (relay) => {
      relay.dropRequests(true)
      return () => {
        // A stream with a hole in it is nothing that a network delivers, so these connections end here.
        relay.cut()
        relay.dropRequests(false)
      }
    }),
    atRelays(relays, 'drop-replies', short, (relay) => {
      relay.dropReplies(true)
      return () => {
        relay.cut()
        relay.dropReplies(false)
      }
    }),
    atRelays(relays, 'delay', [500, 2 * ttlMs], (relay, random) => {
      relay.delay(between(DELAY_MS, random))
      return () => relay.delay(0)
    }),
    // Whoever sent it may have given up long ago when it arrives.
    atRelays(relays, 'late', long, (relay) => {
      relay.hold(true)
      return () => relay.hold(false)
    }),
    halfOpenFault(relays, ttlMs),
  ]
  return duplicate ? [...faults, duplicateFault(relays)] : faults
}

/**
 * The servers' side of connections ends, and clients hear nothing of it: no FIN, no RST, no answer. A server that keeps locks
 * by connection frees them at once. All connections of a relay, or each of them by a coin, since a pool of which every
 * connection is dead recovers in another way than one that has a few.
 */
function halfOpenFault(relays: readonly TcpProxy[], ttlMs: number): StageFault {
  return atRelays(relays, 'half-open', [300, 4 * ttlMs], (relay, random) => {
    const isAll = random() < 0.5
    relay.halfOpen(() => isAll || random() < 0.5)
    return () => {
      // The server's machine is back, and answers what it does not know with RST.
      relay.cut(({ isHalfOpen }) => isHalfOpen)
    }
  })
}

/** All that clients send from their first byte on is sent once more, later. So their connections begin anew first. */
function duplicateFault(relays: readonly TcpProxy[]): StageFault {
  return atRelays(relays, 'duplicate', [300, 1_500], (relay) => {
    relay.record(true)
    relay.cut()
    return async () => {
      await relay.replay()
      relay.record(false)
    }
  })
}

function atRelays(
  relays: readonly TcpProxy[],
  name: StageFault['name'],
  lastsMs: StageFault['lastsMs'],
  begin: (relay: TcpProxy, random: Random) => () => Promise<void> | void,
): StageFault {
  return {
    name,
    lastsMs,
    begin: async (random): Promise<Ongoing> => {
      const { chosen, target } = someOf(relays, random, 'relay')
      const ends = chosen.map((relay) => begin(relay, random))
      return {
        target,
        end: async () => {
          await Promise.all(ends.map(async (end) => await end()))
        },
      }
    },
  }
}

/** One of them, or all of them, half and half. */
export function someOf<T>(
  all: readonly T[],
  random: Random,
  what: string,
): { readonly chosen: readonly T[]; readonly target: string } {
  const { chosen, index } = oneOf(all, random)
  if (all.length > 1 && random() < 0.5) return { chosen: all, target: `${what}:*` }
  return { chosen: [chosen], target: `${what}:${index}` }
}

export function oneOf<T>(all: readonly T[], random: Random): { readonly chosen: T; readonly index: number } {
  const index = Math.min(all.length - 1, Math.floor(random() * all.length))
  const chosen = all[index]
  if (chosen === undefined) throw new RangeError('There is nothing to choose from.')
  return { chosen, index }
}

export function between([least, most]: readonly [number, number], random: Random): number {
  return least + Math.floor(random() * (most - least))
}
