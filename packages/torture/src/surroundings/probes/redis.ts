import { redisCommand } from 'holdfast-servers'
import { type Counts, portsOf, type ServerProbe, sumOf } from './probe.js'

/** Keys and their bytes, subscriptions, scripts and connections of every server of the URL. */
export function redisProbe(url: string): ServerProbe {
  return async () => sumOf(await Promise.all(portsOf(url).map(countsOf)))
}

async function countsOf(port: number): Promise<Counts> {
  const ask = (...args: readonly string[]) => redisCommand(port, args)
  const keys = listOf(await ask('KEYS', '*'))
  let bytes = 0
  for (const key of keys) bytes += Number((await ask('MEMORY', 'USAGE', key, 'SAMPLES', '0')) ?? 0)
  const channels = listOf(await ask('PUBSUB', 'CHANNELS', '*'))
  const info = String(await ask('INFO'))
  const field = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0)
  return {
    keys: keys.length,
    'bytes of keys': bytes,
    channels: channels.length,
    patterns: field('pubsub_patterns'),
    scripts: field('number_of_cached_scripts'),
    connections: field('connected_clients'),
  }
}

function listOf(reply: unknown): string[] {
  return Array.isArray(reply) ? reply.map(String) : []
}
