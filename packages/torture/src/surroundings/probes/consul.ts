import { consulRequest } from 'holdfast-servers'
import { portOf, type ServerProbe } from './probe.js'

/** Keys with their bytes, and sessions. */
export function consulProbe(url: string): ServerProbe {
  const listed = async (path: string): Promise<readonly unknown[]> => {
    const { status, text } = await consulRequest(portOf(url), 'GET', path)
    // Consul answers with 404 where there is no key.
    if (status === 404) return []
    const answer: unknown = JSON.parse(text)
    return Array.isArray(answer) ? answer : []
  }
  return async () => {
    const entries = await listed('/v1/kv/?recurse=true&consistent')
    const sessions = await listed('/v1/session/list?consistent')
    const bytes = entries.reduce<number>(
      (sum, entry) => sum + String(Reflect.get(Object(entry), 'Value') ?? '').length,
      0,
    )
    return { keys: entries.length, 'bytes of keys': bytes, sessions: sessions.length }
  }
}
