/** Looks for what breaks locks in how Redis is set up. Nothing is changed, and no lock is touched. */

import type { Finding } from '../../core/doctor.js'
import { parseRedisUrl, type RedisAddress } from './address.js'
import { checkFacts } from './doctor/checks.js'
import { type Facts, factsOf, type ProbeRuntime } from './doctor/probe.js'
import { checkRights, type RightsUsage } from './doctor/rights.js'
import { checkClock, checkLatency } from './doctor/timing.js'
import { checkCluster, checkIndependence, checkTransport } from './doctor/topology.js'
import { redisError } from './errors.js'
import type { RedisLink, RedisNode } from './link.js'
import { openLinks, openRedis } from './open.js'

/** How the servers are used, which decides what is good for them. */
export type RedisExamination = Omit<RightsUsage, 'isCluster'>

/** Examines what a URL for `connect()` leads to. Rejects where nothing can be found out, because nobody answers. */
export async function examineRedisUrl(url: string, runtime: ProbeRuntime): Promise<Finding[]> {
  // What `connect()` would refuse, an option that is misspelt for one, is refused here in the same words.
  const backend = await openRedis(url)
  await backend.close()
  const address = parseRedisUrl(url)
  const links = await openLinks(address)
  try {
    return [...checkTransport(address), ...(await examineRedis(links, usageOf(address), runtime))]
  } catch (error) {
    throw redisError(error)
  } finally {
    await Promise.allSettled(links.map((link) => link.close()))
  }
}

function usageOf({ topology, options }: RedisAddress): RedisExamination {
  const recipe = topology === 'redlock' ? 'redlock' : options.get('recipe') === 'set-nx' ? 'set-nx' : 'line'
  return {
    recipe,
    prefix: options.get('prefix') ?? (recipe === 'line' ? 'holdfast:' : ''),
    waitReplicas: Number(options.get('waitReplicas') ?? 0),
    trustsRestarted: options.get('restartDelayMs') === '0',
  }
}

/** Several links only for independent masters; a cluster, or a group behind Sentinel, is one. */
export async function examineRedis(
  links: readonly RedisLink[],
  usage: RedisExamination,
  runtime: ProbeRuntime,
): Promise<Finding[]> {
  const facts: Facts[] = []
  const byServer: (readonly Finding[])[] = []
  const byLink: (readonly Finding[])[] = []
  for (const link of links) {
    const whole = { ...usage, isCluster: link.isCluster }
    let isReplica = false
    for (const node of await link.masters()) {
      const known = await factsOf(node, runtime)
      facts.push(known)
      byServer.push([...checkFacts(known, whole), ...(await checkTimes(node, runtime))])
      isReplica ||= known.info.get('role') === 'slave'
    }
    // A replica refuses every write whatever the rights are, and clients then go and look for the master.
    const rights = isReplica ? [] : await checkRights(link, whole, runtime)
    byLink.push([...(await checkCluster(link, runtime)), ...rights])
  }
  return [
    ...(usage.recipe === 'redlock' ? checkIndependence(facts) : []),
    ...mergeFindings(byServer, (index) => `server ${index + 1} of ${byServer.length}${portOf(facts[index])}`),
    ...mergeFindings(byLink, (index) => `server ${index + 1} of ${byLink.length}`),
  ]
}

async function checkTimes(node: RedisNode, runtime: ProbeRuntime): Promise<readonly Finding[]> {
  return [...(await checkLatency(node, runtime)), ...(await checkClock(node, runtime))]
}

/** Servers do not know by which name they are reached, but they know their port. */
function portOf(facts: Facts | undefined): string {
  const port = facts?.info.get('tcp_port')
  return port === undefined ? '' : ` (port ${port})`
}

/**
 * The findings of several servers as one list, in the order of the checks. What is well with all of them is said once;
 * what is not is said with the name of the server, or once if it is the same everywhere.
 */
export function mergeFindings(
  servers: readonly (readonly Finding[])[],
  nameOf: (index: number) => string,
): Finding[] {
  if (servers.length === 1) return [...(servers[0] ?? [])]
  const checks = new Set(servers.flatMap((findings) => findings.map(({ check }) => check)))
  return [...checks].flatMap((check) => mergeCheck(check, servers, nameOf))
}

function mergeCheck(
  check: string,
  servers: readonly (readonly Finding[])[],
  nameOf: (index: number) => string,
): Finding[] {
  const all = servers.flatMap((findings, index) =>
    findings.filter((each) => each.check === check).map((found) => ({ found, index })),
  )
  const bad = all.filter(({ found }) => found.level !== 'ok')
  const [first] = bad.length > 0 ? bad : all
  if (first === undefined) return []
  const isSame = bad.every(
    ({ found }) => found.level === first.found.level && found.found === first.found.found,
  )
  if (bad.length === 0 || (isSame && bad.length === servers.length)) {
    return [{ ...first.found, found: `${first.found.found} (${servers.length} servers)` }]
  }
  return bad.map(({ found, index }) => ({ ...found, found: `${nameOf(index)}: ${found.found}` }))
}
