/** A fresh server for each group, and what it says about itself. */

import { startRedis } from 'holdfast-servers'

export type RedisServer = Awaited<ReturnType<typeof startRedis>>

export async function withRedis<T>(use: (server: RedisServer) => Promise<T>): Promise<T> {
  const server = await startRedis()
  try {
    return await use(server)
  } finally {
    await server.dispose()
  }
}

async function fieldOf(server: RedisServer, section: string, field: string): Promise<number> {
  const { [field]: value } = await server.info(section)
  if (value === undefined) throw new Error(`The server says nothing about ${field}.`)
  return Number(value)
}

/** The processor time that the server has used so far, in microseconds. */
export async function serverCpuUs(server: RedisServer): Promise<number> {
  const { used_cpu_user, used_cpu_sys } = await server.info('cpu')
  return (Number(used_cpu_user) + Number(used_cpu_sys)) * 1e6
}

export function usedMemory(server: RedisServer): Promise<number> {
  return fieldOf(server, 'memory', 'used_memory')
}

export async function keyCount(server: RedisServer): Promise<number> {
  return Number(await server.command('DBSIZE'))
}

/** How often each command was called, also by scripts. Parts of a command, such as `script|load`, are counted apart. */
export async function commandCounts(server: RedisServer): Promise<ReadonlyMap<string, number>> {
  const fields = Object.entries(await server.info('commandstats'))
  return new Map(
    fields.map(([field, value]) => {
      const calls = /calls=(\d+)/.exec(String(value))?.[1] ?? 'NaN'
      return [field.replace(/^cmdstat_/, ''), Number(calls)]
    }),
  )
}
