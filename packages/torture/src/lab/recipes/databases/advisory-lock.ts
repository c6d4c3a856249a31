import { createHash } from 'node:crypto'
import type { PoolClient } from 'pg'
import type { LabHold, LabLock, LabWorld } from '../../lock.js'
import { OurLock } from '../ours.js'
import { PollingTableLock } from './polling.js'

/** A session lock on one connection, which is all that it takes where the connection is one of the server. */
export class AdvisoryLock extends PollingTableLock {
  #session: Promise<PoolClient> | null = null

  protected async tryOnce(name: string): Promise<LabHold | null> {
    this.#session ??= this.pool.connect()
    const session = await this.#session
    const key = createHash('sha256').update(name).digest().readBigInt64BE().toString()
    const { rows } = await session.query<{ locked: boolean }>('SELECT pg_try_advisory_lock($1) AS locked', [
      key,
    ])
    if (rows[0]?.locked !== true) return null
    return {
      release: async () => {
        const { rows } = await session.query<{ unlocked: boolean }>(
          'SELECT pg_advisory_unlock($1) AS unlocked',
          [key],
        )
        return rows[0]?.unlocked === true ? 'released' : 'gone'
      },
    }
  }

  override async close(): Promise<void> {
    if (this.#session !== null) (await this.#session).release()
    await super.close()
  }
}

/**
 * Asks for the recipe with the same locks first. If it were not refused behind the pooler, it would be what plays the
 * schedule, and would be caught there as the other one is.
 */
export async function ourAdvisoryOrRows(world: LabWorld): Promise<LabLock> {
  const { connect } = await world.library()
  try {
    return new OurLock(await connect(`${world.url}?recipe=advisory`))
  } catch (error) {
    const isRefusal = error instanceof Error && error.message.includes('a pooler in transaction mode')
    if (!isRefusal) throw error
  }
  return new OurLock(await connect(`${world.url}?wake=poll&prepare=false`))
}
