import { TABLES_OF_PAYMENTS } from '../../recipes/idempotency/postgres-service.js'
import type { Scene } from '../../scene.js'

/** What a schedule asks the store besides. */
export interface KeyStore {
  /** Whether somebody waits for somebody else, inside of the store. */
  someoneWaits(): Promise<boolean>
}

/** Starts where the tokens are kept. */
export async function startTokenStore(scene: Scene): Promise<KeyStore> {
  // They differ in the store because that is the point: tokens in Redis cannot be in one transaction with the work, and
  // ours are kept where the work is.
  if (scene.isOurs) return await startDatabase(scene)
  await scene.start('redis')
  return { someoneWaits: () => Promise.resolve(false) }
}

export async function startDatabase(scene: Scene): Promise<KeyStore> {
  const server = await scene.start('postgres')
  for (const table of TABLES_OF_PAYMENTS) await server.query(table)
  return {
    someoneWaits: async () => (await server.query('SELECT 1 FROM pg_locks WHERE NOT granted')).length > 0,
  }
}

/** What every case with tokens says of ours, since all of them are played by the same one. */
export const OUR_TOKENS =
  'A token is a row in PostgreSQL with a state, and `updateWhere` of `holdfast/optimistic` moves it from `issued` to ' +
  '`used` in the same transaction as the work. The library has no tokens of its own yet; this is what it has today.'
