import type { LabCase } from '../../case.js'
import { ours } from '../../recipes/ours.js'
import { FoundAgain } from '../../recipes/zookeeper/found-again.js'
import { sessionsIn } from './server-side.js'

const SESSION_MS = 6_000

export const zookeeperOldSession: LabCase = {
  name: 'zookeeper-old-session',
  title: 'A node of the session before is taken for a grant',
  family: 'zookeeper',
  stores: ['zookeeper'],
  story:
    'A create whose answer was lost is looked for by a mark in the name of its node, so that it is not made twice: Apache ' +
    'Curator calls it protection. But between the try and the search the session can have been replaced. The node that is ' +
    'found belongs to the old one, and the server is about to delete it (CURATOR-604).',
  fault:
    'The answers of the server do not reach A, its requests do reach the server. A gives its session up; the server, which ' +
    'has heard from it until a moment ago, does not yet. With a new session A finds its node at the head of the line, and ' +
    'takes itself for the holder. The server ends the old session and deletes the node. B gets the lock beside A.',
  expects: 'overlap',
  ours:
    '`zookeeper:`, recipe `sequential`. A node counts only if the present session made it. A stands in line again, behind ' +
    'its own old node, until the server has removed that.',
  setUp: async () => {},
  open: { broken: (world) => FoundAgain.open(world), ours: ours({ query: `sessionMs=${SESSION_MS}` }) },
  schedule: async (scene) => {
    const server = await scene.start('zookeeper')
    scene.ttlMs = (SESSION_MS * 2) / 3
    const relay = await scene.relay(server.port)
    const a = await scene.actor('A', { relay, settings: { sessionMs: SESSION_MS } })
    const b = await scene.actor('B', { settings: { sessionMs: SESSION_MS } })
    // The folder of the lock is there from now on, so that the node is the first thing that is asked for.
    await b.acquire()
    await b.release()
    scene.faultBegins('drop-replies', 'A')
    relay.dropReplies(true)
    const waiting = a.acquire({ waitMs: 60_000 })
    let old: readonly string[] = []
    await scene.until(async () => {
      old = await sessionsIn(server, scene.lockName)
      return old.length > 0
    })
    // Longer than the session: by then its client has given it up, and has last knocked when a third of it was left.
    await scene.sleep(SESSION_MS * 1.2)
    relay.cut()
    relay.dropReplies(false)
    scene.faultEnds('drop-replies', 'A')
    await waiting
    const next = b.acquire({ waitMs: 60_000 })
    await scene.until(async () => {
      const present = await sessionsIn(server, scene.lockName)
      return !old.some((session) => present.includes(session))
    })
    await Promise.race([next, scene.sleep(SESSION_MS / 2)])
    await a.release()
    await next
    await b.release()
  },
}
