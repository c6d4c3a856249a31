/** Waiting for conditions. The limits are generous: a slow machine reaches none of them. */

import { setTimeout as sleep } from 'node:timers/promises'

export const LIMIT_MS = 30_000

/** Waits until the condition holds. False when the limit is reached. */
export async function came(
  condition: () => boolean | Promise<boolean>,
  { limitMs = LIMIT_MS, pauseMs = 10 } = {},
): Promise<boolean> {
  const end = performance.now() + limitMs
  while (!(await condition())) {
    if (performance.now() >= end) return false
    await sleep(pauseMs)
  }
  return true
}

/** The value, or null when the limit is reached first. */
export async function within<T>(promise: Promise<T>, limitMs = LIMIT_MS): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), limitMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code: unknown = Reflect.get(error, 'code')
  return typeof code === 'string' ? `${code}: ${error.message}` : error.message
}

/** By its code, because an error of another build of the library is of another class. */
export function codeOf(error: unknown): unknown {
  return error instanceof Error ? Reflect.get(error, 'code') : undefined
}

export interface Deferred<T> {
  readonly promise: Promise<T>
  resolve(value: T): void
  reject(error: unknown): void
}

/** `Promise.withResolvers()`, which Node 20 does not have. */
export function deferred<T>(): Deferred<T> {
  let resolve: Deferred<T>['resolve'] = () => {}
  let reject: Deferred<T>['reject'] = () => {}
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue
    reject = onError
  })
  return { promise, resolve, reject }
}
