import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import type { RedisServer } from 'holdfast-servers'
import type { LabCase } from '../../case.js'
import { herdViolations } from '../../herd.js'
import { ours } from '../../recipes/ours.js'
import { NoRenewal } from '../../recipes/redis/owned-key.js'
import type { Scene } from '../../scene.js'

const servers = new WeakMap<Scene, RedisServer>()

const WAITERS = 30

/** `+1726000000.000000 [0 lua] "GET" "key"` */
const IN_SCRIPT = /^\+[\d.]+ \[\d+ lua\] /

/** What is above this is asked for nothing: a place in a line needs no more than a sign of life now and then. */
const REQUESTS_PER_WAITER_SECOND = 5

export const thunderingPoll: LabCase = {
  name: 'thundering-poll',
  title: 'Everybody asks again every 50 ms',
  family: 'redis',
  stores: ['redis'],
  story:
    'Whoever does not get the lock sleeps for 50 ms and tries again. It is in most libraries, because it needs nothing of ' +
    'the store. With one waiter nobody notices.',
  fault:
    `${WAITERS} callers wait while one works. All that they ask while nothing changes is counted at the server, and set ` +
    `against ${REQUESTS_PER_WAITER_SECOND} requests per waiter and second.`,
  expects: 'herd',
  ours:
    '`redis:`, recipe `line`. Each waiter has a place in the line and is told when its turn has come; it asks about once a ' +
    'second in case the message was lost.',
  setUp: async (scene) => {
    servers.set(scene, await scene.start('redis'))
  },
  open: { broken: (world) => new NoRenewal(world), ours: ours() },
  schedule: async (scene) => {
    scene.ttlMs = 30_000
    const holder = await scene.actor('A')
    const waiters = await scene.crowd('W', WAITERS)
    await holder.acquire()
    const waiting = waiters.map((waiter) => waiter.acquire({ waitMs: 60_000 }))
    // Their arrival is not counted, only their waiting.
    await scene.sleep(1_500)
    const { requests, elapsedMs } = await countedRequests(scene, 3_000)
    scene.count('requests while nothing changed', requests)
    scene.count('milliseconds', Math.round(elapsedMs))
    scene.count('waiters', WAITERS)
    await holder.release()
    await Promise.all(waiting.map(async (each, index) => each.then(() => waiters[index]?.release())))
  },
  judge: (_history, facts) => herdViolations(facts, REQUESTS_PER_WAITER_SECOND),
}

/** How many commands clients send in a span of time. What a script does within the server is no request. */
async function countedRequests(scene: Scene, ms: number): Promise<{ requests: number; elapsedMs: number }> {
  const { hostname, port } = new URL(servers.get(scene)?.url ?? '')
  // ioredis fails where the answer to MONITOR and the first command come in one packet, so this is read as text.
  const socket = connect({ host: hostname, port: Number(port) })
  try {
    await once(socket, 'connect')
    socket.write('MONITOR\r\n')
    const lines = createInterface({ input: socket })
    await once(lines, 'line')
    let requests = 0
    lines.on('line', (line) => {
      if (!IN_SCRIPT.test(line)) requests += 1
    })
    const began = performance.now()
    await scene.sleep(ms)
    return { requests, elapsedMs: performance.now() - began }
  } finally {
    socket.destroy()
  }
}
