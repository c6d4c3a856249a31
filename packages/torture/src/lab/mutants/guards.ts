/** What the locks of trials protect: a number that is written only under a fence that is not older than any it has seen. */

import type { LabWorld } from '../lock.js'

export type Library = typeof import('holdfast') & typeof import('holdfast/fencing')

export type GuardName = 'gate' | 'redis' | 'postgres'

export interface Guard {
  /** Throws if the fence is stale, and then it certainly had no effect. */
  write(name: string, value: number, fence: bigint): Promise<void>
  close(): Promise<void>
}

const TABLE = 'guarded_number'

export async function guardFor(name: GuardName, library: Library, world: LabWorld): Promise<Guard> {
  switch (name) {
    case 'gate':
      return gateGuard(library)
    case 'redis':
      return await redisGuard(library, world)
    case 'postgres':
      return await postgresGuard(library, world)
  }
}

/** One for all actors of the process, as a gate is one for all requests to a service. */
let gate: InstanceType<Library['FenceGate']> | null = null

function gateGuard({ FenceGate }: Library): Guard {
  gate ??= new FenceGate()
  const shared = gate
  return { write: async (name, _value, fence) => shared.pass(name, fence), close: async () => {} }
}

async function redisGuard(library: Library, world: LabWorld): Promise<Guard> {
  const { Redis } = await import('ioredis')
  const client = new Redis(Number(new URL(world.url).port), '127.0.0.1')
  const guard = library.redisGuard(client)
  return {
    write: (name, value, fence) => guard.set(`${name}/data`, String(value), fence),
    close: async () => client.disconnect(),
  }
}

async function postgresGuard(library: Library, world: LabWorld): Promise<Guard> {
  const { default: pg } = await import('pg')
  const { port, username, pathname } = new URL(world.url)
  const pool = new pg.Pool({
    host: '127.0.0.1',
    port: Number(port),
    user: username,
    database: pathname.slice(1),
  })
  await pool.query(
    `CREATE TABLE IF NOT EXISTS ${TABLE} (name text PRIMARY KEY, value integer NOT NULL, fence bigint)`,
  )
  return {
    write: async (name, value, fence) => {
      await pool.query(`INSERT INTO ${TABLE} VALUES ($1, 0, NULL) ON CONFLICT DO NOTHING`, [name])
      await library.guardedUpdate(pool, { table: TABLE, key: { name }, set: { value }, fence })
    },
    close: () => pool.end(),
  }
}
