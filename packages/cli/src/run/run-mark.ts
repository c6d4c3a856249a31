/** The environment variable that marks the processes of one `holdfast run`. */

import { randomBytes } from 'node:crypto'

/** The ids of the runs around a process, the outermost first, with dots between them. */
export const RUN_VARIABLE = 'HOLDFAST_RUN'

/** Nested runs add their ids behind those around them. Older ids are dropped, so that the text stays short. */
const NESTED_RUNS_MAX = 16

/** The id has the pid of `holdfast run`, so that a run around it can tell whether it still supervises its command. */
export function newRunId(): string {
  return `${randomBytes(8).toString('hex')}-${process.pid}`
}

export function runVariable(outer: string | undefined, runId: string): string {
  const around = outer === undefined || outer === '' ? [] : outer.split('.')
  return [...around.slice(1 - NESTED_RUNS_MAX), runId].join('.')
}

export function isMarkedBy(mark: string | null, runId: string): boolean {
  return mark?.split('.').includes(runId) ?? false
}

/** The pid of the run that was started directly inside the run `runId`, if the mark has one. */
export function nestedSupervisor(mark: string | null, runId: string): number | null {
  const ids = mark?.split('.') ?? []
  const own = ids.indexOf(runId)
  const nested = own < 0 ? undefined : ids[own + 1]
  return nested === undefined ? null : Number(nested.split('-')[1])
}
