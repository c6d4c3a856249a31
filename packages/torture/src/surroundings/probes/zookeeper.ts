import { zookeeperWord } from 'holdfast-servers'
import { portOf, type ServerProbe } from './probe.js'

/** Nodes, watches and sessions. Their data sizes differ by the digits of version numbers, so nodes are counted. */
export function zookeeperProbe(url: string): ServerProbe {
  return async () => {
    const text = await zookeeperWord(portOf(url), 'mntr')
    const field = (name: string): number => Number(new RegExp(`^${name}\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0)
    return {
      znodes: field('zk_znode_count'),
      watches: field('zk_watch_count'),
      sessions: field('zk_ephemerals_count'),
      connections: field('zk_num_alive_connections'),
    }
  }
}
