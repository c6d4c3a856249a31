/** The environment variable that marks the processes of one `holdfast run`. */

import { randomBytes } from 'node:crypto'

/** The ids of the runs around a process, the outermost first, with dots between them. */
export const RUN_VARIABLE = 'HOLDFAST_RUN'

/** Nested runs add their ids behind those around them. Older ids are dropped, so that the text stays short. */
const NESTED_RUNS_MAX = 16

export function newRunId(): string {
  return randomBytes(8).toString('hex')
}

export function runVariable(outer: string | undefined, runId: string): string {
  const around = outer === undefined || outer === '' ? [] : outer.split('.')
  return [...around.slice(1 - NESTED_RUNS_MAX), runId].join('.')
}

export function isMarkedBy(mark: string | null, runId: string): boolean {
  return mark?.split('.').includes(runId) ?? false
}
