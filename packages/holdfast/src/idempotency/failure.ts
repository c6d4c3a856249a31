/** A final error, as it is stored and thrown again: its name, message and code, and nothing else of it. */

import { ReplayedFailureError } from '../core/record-errors.js'

export interface Failure {
  readonly name: string
  readonly message: string
  readonly code: string | null
}

export function failureOf(error: unknown): Failure {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error), code: null }
  const code: unknown = Reflect.get(error, 'code')
  return { name: error.name, message: error.message, code: typeof code === 'string' ? code : null }
}

export function replayedFailure(stored: unknown, resource: string, backend: string): ReplayedFailureError {
  const fields = typeof stored === 'object' && stored !== null ? stored : {}
  const text = (field: string): string | null => {
    const value: unknown = Reflect.get(fields, field)
    return typeof value === 'string' ? value : null
  }
  const failure = { name: text('name') ?? 'Error', message: text('message') ?? '', code: text('code') }
  return new ReplayedFailureError(failure, { resource, backend })
}
