/** What the demonstration and its workers say to each other, and the files that they share. */

import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export const LOCK_NAME = 'demo:counter'

/** Short, so that the takeover after the kill does not take long. */
export const TTL_MS = 1_500

/** How a worker is told what it needs. */
export interface WorkerSetup {
  readonly worker: number
  readonly url: string
  readonly folder: string
}

export type FromWorker =
  | { readonly type: 'ready' }
  | { readonly type: 'waiting' }
  /** Fences are texts on the way, because messages between processes are JSON. */
  | { readonly type: 'granted'; readonly fence: string; readonly lingers: boolean }
  | { readonly type: 'counted'; readonly count: number }
  | { readonly type: 'lost'; readonly message: string }
  | { readonly type: 'failed'; readonly message: string }

export type ToWorker =
  /** Keep the lock when it is yours next, so that the kill surely hits a holder. */
  { readonly type: 'linger' } | { readonly type: 'stop' }

/** One increment, as its worker wrote it down while it held the lock. */
export interface Entry {
  readonly worker: number
  readonly fence: bigint
  readonly count: number
}

export function counterFile(folder: string): string {
  return join(folder, 'counter')
}

export function journalFile(folder: string): string {
  return join(folder, 'journal')
}

export function readCounter(folder: string): number {
  return Number(readFileSync(counterFile(folder), 'utf8'))
}

/** Written aside and renamed, so that a worker that is killed meanwhile leaves no half of a number. */
export function writeCounter(folder: string, count: number, writer: number): void {
  const aside = `${counterFile(folder)}.${writer}`
  writeFileSync(aside, String(count))
  renameSync(aside, counterFile(folder))
}

export function journalLine({ worker, fence, count }: Entry): string {
  return `${worker} ${fence} ${count}\n`
}

export function parseJournal(text: string): Entry[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [worker = '', fence = '', count = ''] = line.split(' ')
      return { worker: Number(worker), fence: BigInt(fence), count: Number(count) }
    })
}
