/**
 * One process of a schedule of the lab, with one caller or several. It does what it is told over its channel, and ends
 * with whoever started it.
 *
 *     lab-actor.js
 */

import { LabActor } from '../lab/actor.js'
import { caseNamed } from '../lab/cases/index.js'
import { TRIAL, TRIAL_NAME } from '../lab/mutants/trial-lock.js'
import type { Reply, Request } from '../lab/protocol.js'

const actors = new Map<string, LabActor>()

function tell(reply: Reply): void {
  // A channel that has closed means that nobody listens any more; `disconnect` below ends this process.
  if (process.connected) process.send?.(reply)
}

async function answer(request: Request): Promise<unknown> {
  if (request.kind === 'open') {
    const { setup } = request
    const labCase = setup.caseName === TRIAL_NAME ? TRIAL : caseNamed(setup.caseName)
    actors.set(setup.actor, await LabActor.open(labCase, setup, tell))
    return null
  }
  const actor = actors.get(request.actor)
  if (actor === undefined) throw new Error(`There is no actor '${request.actor}' in this process.`)
  return (await actor.obey(request.command)) ?? null
}

process.on('message', (request: Request) => {
  answer(request).then(
    (value) => tell({ kind: 'done', id: request.id, value }),
    (error: unknown) =>
      tell({ kind: 'failed', id: request.id, error: error instanceof Error ? error.message : String(error) }),
  )
})
process.on('disconnect', () => process.exit(0))
