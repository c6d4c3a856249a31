/**
 * A store of somebody's own, by its URL. There are relays before every host that the URL names, so there are faults of the
 * network; nothing of the owner's is made, stopped, killed or set. What is left is judged by the names of the run alone.
 */

import { connect, type Guarantees } from 'holdfast'
import { startProxy, type TcpProxy } from 'holdfast-servers'
import { allLeftovers, type Keep, startStage } from './assemble.js'
import { namesInUse } from './names-in-use.js'
import { networkFaults, openConnections, relayAddresses } from './relays.js'
import type { Stage, StageDefinition } from './stage.js'

/**
 * The port that each scheme means. Those that are not here get no relays: files have no network, behind Sentinel and in a
 * cluster the servers tell where they are, and over TLS a certificate would not be for the relay.
 */
const PORTS: Readonly<Record<string, number>> = {
  redis: 6_379,
  'redis+redlock': 6_379,
  postgres: 5_432,
  postgresql: 5_432,
  mysql: 3_306,
  mariadb: 3_306,
  zookeeper: 2_181,
  etcd: 2_379,
  consul: 8_500,
  memcached: 11_211,
}

/** As short as this where the store allows it, so that faults outlast a lease in a short run. */
const TTL_MS = 1_500
const SLACK_MS = 8_000
/** What is kept by a session lasts as long as that, which is longer than a ttl, and once more after a change of leader. */
const SESSION_TTLS = 4

/** `prefix` is what the names of the run begin with. */
export function stageForUrl(url: string, prefix: string): StageDefinition {
  const store = storeOf(url)
  const recipe = recipeOf(url)
  return { store, recipe, missing: () => null, start: () => start(url, { store, recipe, prefix }) }
}

interface OwnStore {
  readonly store: string
  readonly recipe: string
  readonly prefix: string
}

async function start(url: string, { store, recipe, prefix }: OwnStore): Promise<Stage> {
  const guarantees = await guaranteesOf(url)
  const { keptBy, shows } = guarantees
  const ttlMs = ttlFor(guarantees)
  return await startStage(
    async (keep) => {
      const { relays, url: relayed } = await relaysFor(keep, url)
      return {
        store,
        recipe,
        url: relayed,
        ttlMs,
        freedWithinMs: (keptBy === 'session' ? SESSION_TTLS * ttlMs : ttlMs) + sessionMsOf(url) + SLACK_MS,
        faults: relays.length === 0 ? [] : networkFaults(relays, { ttlMs, duplicate: keptBy !== 'session' }),
        leftovers: () =>
          // Where only connections are shown, there is no list of names to look at.
          allLeftovers([openConnections(relays), shows === 'claims' ? namesInUse(url, prefix) : []]),
      }
    },
    { migrate: false },
  )
}

async function guaranteesOf(url: string): Promise<Guarantees> {
  const locks = await connect(url)
  await locks.close()
  return locks.guarantees
}

function ttlFor({ ttlMinMs, ttlMaxMs, ttlStepMs }: Guarantees): number {
  return Math.min(Math.ceil(Math.max(TTL_MS, ttlMinMs) / ttlStepMs) * ttlStepMs, ttlMaxMs)
}

/** ZooKeeper keeps what a dead client had for as long as its session, twice if the leader changes; 45 s unless set. */
function sessionMsOf(url: string): number {
  if (!/^zookeepers?:/i.test(url)) return 0
  return 2 * Number(/[?&]sessionMs=(\d+)/.exec(url)?.[1] ?? 45_000)
}

function schemeOf(url: string): string {
  return url.slice(0, Math.max(0, url.indexOf(':'))).toLowerCase()
}

/** The name that the stages have for what the URL leads to. */
function storeOf(url: string): string {
  const [plain = '', kind] = schemeOf(url).split('+')
  const store = plain
    .replace(/^postgresql$/, 'postgres')
    .replace(/^(redis|etcd|consul|zookeeper|memcached)s$/, '$1')
  const isGroup = hostsOf(url).includes(',')
  if (store === 'redis') return kind === undefined || kind === 'redlock' ? store : `${store}-${kind}`
  if (store === 'zookeeper') return isGroup ? 'zookeeper-ensemble' : store
  return isGroup ? `${store}-cluster` : store
}

/** As the URL names it; without a name it is the usual one of the store. */
function recipeOf(url: string): string {
  return /[?&]recipe=([\w-]+)/.exec(url)?.[1] ?? /^\w+\+(redlock):/.exec(url)?.[1] ?? 'default'
}

/** The scheme, the credentials, the hosts, and all that follows. */
const PARTS = /^([^:]+:\/\/)([^/?#]*@)?([^/?#]+)(.*)$/s

function hostsOf(url: string): string {
  return PARTS.exec(url)?.[3] ?? ''
}

/** A host, or an address of version 6 in brackets, and a port. */
const HOST = /^(\[[^\]]+\]|[^:]+)(?::(\d+))?$/

async function relaysFor(
  keep: Keep,
  url: string,
): Promise<{ readonly relays: readonly TcpProxy[]; readonly url: string }> {
  const port = PORTS[schemeOf(url)]
  const [, scheme = '', credentials = '', hosts = '', rest = ''] = PARTS.exec(url) ?? []
  const targets = hosts.split(',').map((text) => HOST.exec(text))
  if (port === undefined || targets.includes(null)) return { relays: [], url }
  const relays = await Promise.all(
    targets.map(async (target) =>
      keep(
        await startProxy(Number(target?.[2] ?? port), {
          host: String(target?.[1]).replace(/^\[|\]$/g, ''),
        }),
      ),
    ),
  )
  return { relays, url: `${scheme}${credentials}${relayAddresses(relays)}${rest}` }
}
