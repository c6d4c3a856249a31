/**
 * The suite of records, and random histories, on one server:
 *
 *     await describeRecordStore('postgres', {
 *       urlFor: (url, tag) => `${url}?tablePrefix=${tag}_`,
 *       opener: openPostgresRecords,
 *       histories: true,
 *     })
 */

import { randomBytes } from 'node:crypto'
import { sharedStoreFor } from 'holdfast-servers'
import { afterAll, describe, expect, it } from 'vitest'
import type { RecordStore } from '../../src/core/records.js'
import { describeRecords } from '../../src/testing.js'
import { playsByTheRule } from './random-histories.js'

export interface RecordVariant {
  /** Told in the titles, where a store has more than one. */
  readonly name?: string
  /** The URL of a fresh part of the store. */
  readonly urlFor: (url: string, tag: string) => string
  /** A store object that is not opened yet. */
  readonly opener: (url: string) => Promise<RecordStore> | RecordStore
  /** Whether a script or a statement follows the rule there, so that it must be compared with it. */
  readonly histories?: boolean
}

/** Registers the suite for each variant, one after the other, on one store. */
export async function describeRecordStore(
  store: string,
  ...variants: readonly RecordVariant[]
): Promise<void> {
  const outcome = await sharedStoreFor(store)
  if (outcome.kind === 'not run') {
    it.skip(`records of ${store} (not run: ${outcome.reason})`)
    return
  }
  afterAll(() => outcome.store.dispose())
  for (const { name: variant, urlFor, opener, histories = false } of variants) {
    const name = variant === undefined ? store : `${store} ${variant}`
    const url = urlFor(outcome.store.url, `t${randomBytes(5).toString('hex')}`)
    const connect = async (): Promise<RecordStore> => await opener(url)
    const open = async () => ({ connect, close: async () => {} })
    const summary = await describeRecords({ name, describe, it, afterAll, open })
    it(`records of ${name}: left out only what the traits explain`, () => {
      expect(summary.ran.length + summary.skipped.length).toBe(summary.total)
    })
    if (histories) it(`records of ${name} play by the rule`, () => playHistories(connect))
  }
}

export async function playHistories(connect: () => Promise<RecordStore>): Promise<void> {
  const [a, b] = [await connect(), await connect()]
  try {
    await a.open()
    await a.migrate?.()
    await b.open()
    await playsByTheRule([a, b])
  } finally {
    await Promise.all([a.close(), b.close()])
  }
}
