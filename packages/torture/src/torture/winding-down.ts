/** The beginning and the end of a run: everybody is there, everybody was served, nothing is left. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Violation } from '../check/verdict.js'
import { nowMicros } from '../history/recorder.js'
import type { Stage } from '../stage/stage.js'
import type { Crew, WorkerProcess } from './crew.js'

const LOOK_MS = 50
const READY_MS = 60_000
/** On top of what the store takes to free what dead clients held: a machine can be slow, and a line can be long. */
const SERVED_SLACK_MS = 30_000
const LEFTOVER_SLACK_MS = 3_000

/**
 * Time in which this process ran. A machine with too much to do is late by itself; each look then counts for no more than
 * it was meant to take, so that there are always as many looks.
 */
class Patience {
  #leftMs: number

  constructor(ms: number) {
    this.#leftMs = ms
  }

  get isOver(): boolean {
    return this.#leftMs <= 0
  }

  async pause(ms: number): Promise<void> {
    await sleep(ms)
    this.#leftMs -= ms
  }
}

async function until(came: () => boolean, withinMs: number, signal: AbortSignal): Promise<boolean> {
  const patience = new Patience(withinMs)
  while (!came()) {
    signal.throwIfAborted()
    if (patience.isOver) return false
    await patience.pause(LOOK_MS)
  }
  return true
}

export async function awaitReady(crew: Crew, signal: AbortSignal): Promise<void> {
  const all = (): boolean => crew.present.every(({ isReady, isRunning }) => isReady || !isRunning)
  const inTime = await until(all, READY_MS, signal)
  const failed = crew.present.find(({ isReady }) => !isReady)
  if (failed === undefined) return
  const why = inTime ? `ended at once. ${failed.errors}` : 'could not connect to the store.'
  throw new Error(`The worker ${failed.name} ${why}`)
}

/** Tells everybody to finish. Whoever still waits when it should long have been served is a violation. */
export async function awaitFinish(crew: Crew, stage: Stage, signal: AbortSignal): Promise<Violation[]> {
  for (const worker of crew.present) worker.send({ kind: 'finish' })
  const all = (): boolean => crew.present.every(({ isDone, isRunning }) => isDone || !isRunning)
  await until(all, stage.freedWithinMs + SERVED_SLACK_MS, signal)
  return [...stuck(crew), ...fallen(crew)]
}

function stuck(crew: Crew): Violation[] {
  return crew.present
    .filter(({ isDone, isRunning }) => !isDone && isRunning)
    .map(({ name, counts }): Violation => {
      const at = nowMicros()
      const from = counts.waitingSince ?? at
      const waited = Math.round((at - from) / 1_000)
      const message =
        counts.waitingSince === null
          ? `${name} did not come to its end, though it waits for no lock.`
          : `${name} has waited for ${counts.waitingFor} for ${waited} ms, long after the last fault.`
      return {
        kind: 'stuck-waiter',
        resource: counts.waitingFor ?? '',
        at,
        message,
        involved: [{ p: name, from, to: at }],
      }
    })
}

/** Workers that ended without anybody's doing, and what others had to complain about on their standard error. */
function fallen(crew: Crew): Violation[] {
  return crew.everybody.flatMap((worker): Violation[] => {
    const ended = !worker.isRunning && !worker.isDone && !worker.wasKilled
    if (!ended && worker.errors === '') return []
    return [fallOf(worker, ended)]
  })
}

function fallOf(
  { name, errors, process: { exitCode, signalCode } }: WorkerProcess,
  ended: boolean,
): Violation {
  const how = ended
    ? `${name} ended by itself (${signalCode ?? exitCode}).`
    : `${name} wrote to its standard error.`
  return {
    kind: 'unexpected-error',
    resource: '',
    at: nowMicros(),
    message: `${how} ${errors.trim()}`.trim(),
  }
}

/** Gives the store the time that it says it needs, and tells what is there even then. */
export async function awaitNothingLeft(stage: Stage, signal: AbortSignal): Promise<Violation[]> {
  const patience = new Patience(stage.freedWithinMs + LEFTOVER_SLACK_MS)
  for (;;) {
    signal.throwIfAborted()
    const left = await stage.leftovers()
    if (left.length === 0) return []
    if (patience.isOver) {
      return left.map(({ what, name }) => ({
        kind: 'leak',
        resource: name,
        at: nowMicros(),
        message: `A ${what} is left in the store: ${name}.`,
      }))
    }
    await patience.pause(LOOK_MS * 4)
  }
}
