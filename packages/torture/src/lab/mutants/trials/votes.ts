import { startRedisMasters, type TcpProxy } from 'holdfast-servers'
import type { Actor } from '../../actor-process.js'
import type { Play } from '../play.js'
import type { Trial } from '../trial.js'

const TTL_MS = 8_000
/** A slow master is no reason to lose a vote here. */
const NODE_MS = 1_500
const WAIT_MS = 3_000
/** Longer than the lease, as it must be. */
const RESTART_DELAY_MS = 9_000
/** Uptimes are whole seconds, each end rounded by itself. */
const OLD_ENOUGH_MS = RESTART_DELAY_MS + 2_000

/** One reaches two masters of five, and the other the three others. */
export const splitVote: Trial = {
  name: 'votes split',
  run: async (play) => {
    const { relaysOfA, relaysOfB } = await mastersOf(play, 'restartDelayMs=0')
    const [a, b] = await callers(play, relaysOfA, relaysOfB)
    play.scene.faultBegins('partition', 'A')
    play.scene.faultBegins('partition', 'B')
    for (const relay of relaysOfA.slice(2)) cutOff(relay)
    for (const relay of relaysOfB.slice(0, 2)) cutOff(relay)
    await a.acquire({ ttlMs: TTL_MS, waitMs: WAIT_MS })
    await b.acquire({ ttlMs: TTL_MS, waitMs: WAIT_MS })
    await a.assert()
    await b.release()
    await a.release()
  },
}

/** One has three masters of five. One of them restarts and has forgotten it; the other reaches that one and the last two. */
export const restartedMaster: Trial = {
  name: 'master restarted',
  run: async (play) => {
    const { scene } = play
    const { masters, relaysOfA, relaysOfB } = await mastersOf(
      play,
      `restartDelayMs=${RESTART_DELAY_MS}&maxTtlMs=${TTL_MS}`,
    )
    const [a, b] = await callers(play, relaysOfA, relaysOfB)
    // Masters that have just been started have no say themselves.
    await scene.sleep(OLD_ENOUGH_MS)
    scene.faultBegins('partition', 'A')
    scene.faultBegins('partition', 'B')
    for (const relay of relaysOfA.slice(3)) cutOff(relay)
    for (const relay of relaysOfB.slice(0, 2)) cutOff(relay)
    await a.acquire({ ttlMs: TTL_MS, waitMs: 20_000 })
    scene.faultBegins('restart', 'redis:3')
    await masters.servers[2]?.kill()
    await masters.servers[2]?.restart()
    scene.faultEnds('restart', 'redis:3')
    // It waits, because its client has to find the master again first.
    await b.acquire({ ttlMs: TTL_MS, waitMs: WAIT_MS })
    await a.assert()
    await b.release()
    await a.release()
  },
}

interface Masters {
  readonly masters: Awaited<ReturnType<typeof startRedisMasters>>
  readonly relaysOfA: readonly TcpProxy[]
  readonly relaysOfB: readonly TcpProxy[]
}

async function mastersOf(play: Play, query: string): Promise<Masters> {
  const { scene } = play
  const masters = scene.own(await startRedisMasters(5))
  const relays = (): Promise<readonly TcpProxy[]> =>
    Promise.all(masters.servers.map(({ port }) => scene.relay(port)))
  play.query = `nodeMs=${NODE_MS}&${query}`
  return { masters, relaysOfA: await relays(), relaysOfB: await relays() }
}

async function callers(
  play: Play,
  relaysOfA: readonly TcpProxy[],
  relaysOfB: readonly TcpProxy[],
): Promise<readonly [Actor, Actor]> {
  play.url = urlOf(relaysOfA)
  const a = await play.actor('A')
  play.url = urlOf(relaysOfB)
  return [a, await play.actor('B')]
}

function urlOf(relays: readonly TcpProxy[]): string {
  return `redis+redlock://${relays.map(({ port }) => `127.0.0.1:${port}`).join(',')}`
}

function cutOff(relay: TcpProxy): void {
  relay.refuse(true)
  relay.cut()
}
