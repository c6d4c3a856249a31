/** Callers that contend for one name, in one process and in two, with every primitive. */

import type { Hold, Lockable } from 'holdfast'
import { freshName } from '../subject.js'
import type { Scene } from './context.js'

/** Grants by hand-over between callers of one client, and by the store from another client. */
export async function callers({ contexts, locks, other, subject }: Scene): Promise<void> {
  const { weights } = locks.guarantees
  const name = freshName('callers')
  const primitives: readonly (readonly [string, Lockable<Hold>])[] = [
    ['mutex', locks.mutex(`${name}-m`)],
    ...(weights === 'any' ? [['writer', locks.readWrite(`${name}-w`).write()] as const] : []),
    ...(weights === 'any' ? [['reader', locks.readWrite(`${name}-w`).read()] as const] : []),
    ...(weights === 'none' ? [] : [['semaphore', locks.semaphore(`${name}-s`, 2)] as const]),
  ]
  // Another client holds the mutex at first, so that the first grant comes from the store.
  const held = await other.mutex(`${name}-m`).acquire()
  const all = primitives.flatMap(([what, lock]) =>
    Array.from({ length: subject.sizes.callers }, () =>
      contexts.as(`${what} caller`, async (me) => {
        const hold = await lock.acquire()
        contexts.expect(me, `acquire() of a ${what}`)
        await hold.release()
        contexts.expect(me, `release() of a ${what}`)
        await lock.run(() => contexts.expect(me, `run() of a ${what}`))
      }),
    ),
  )
  const aborting = abortedCallers({ contexts, locks }, `${name}-m`)
  await held.release()
  await Promise.all([...all, aborting])
}

/** The signal of a caller is aborted by another one. */
async function abortedCallers(
  { contexts, locks }: Pick<Scene, 'contexts' | 'locks'>,
  name: string,
): Promise<void> {
  const controller = new AbortController()
  const waiting = contexts.as('caller that gives up', async (me) => {
    const outcome = await locks
      .mutex(name)
      .acquire({ signal: controller.signal })
      .then(
        (hold) => hold.release(),
        () => null,
      )
    contexts.expect(me, 'an aborted acquire()')
    return outcome
  })
  await contexts.as('caller that aborts', async () => controller.abort(new Error('enough')))
  await waiting
}

/** An election with an observer, and `all()`. */
export async function electionAndRuns({ contexts, locks }: Scene): Promise<void> {
  const name = freshName('election')
  const election = locks.election(name)
  await Promise.all(
    [1, 2].map(() =>
      contexts.as('candidate', async (me) => {
        const leadership = await election.campaign({ note: me })
        contexts.expect(me, 'campaign()')
        await leadership.resign()
      }),
    ),
  )
  await Promise.all(
    [1, 2].map(() =>
      contexts.as('caller of all()', (me) =>
        locks.all([`${name}-a`, `${name}-b`]).run(() => contexts.expect(me, 'run() of all()')),
      ),
    ),
  )
}
