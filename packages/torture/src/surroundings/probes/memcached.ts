import { memcachedCommand } from 'holdfast-servers'
import { portOf, type ServerProbe } from './probe.js'

/** Items that have not expired, their bytes, and connections. */
export function memcachedProbe(url: string): ServerProbe {
  return async () => {
    const port = portOf(url)
    const stats = await memcachedCommand(port, 'stats', /END\r\n$/)
    const items = await memcachedCommand(port, 'lru_crawler metadump all', /END\r\n$/)
    const now = Number(/^STAT time (\d+)/m.exec(stats)?.[1] ?? 0)
    const live = [...items.matchAll(/^key=(\S+) exp=(-?\d+).*? size=(\d+)/gm)].filter(
      ([, , expires]) => Number(expires) < 0 || Number(expires) > now,
    )
    return {
      items: live.length,
      'bytes of items': live.reduce((sum, [, , , size]) => sum + Number(size), 0),
      connections: Number(/^STAT curr_connections (\d+)/m.exec(stats)?.[1] ?? 0),
    }
  }
}
