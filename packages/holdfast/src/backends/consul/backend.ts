/** Locks in Consul, by its sessions, where `consul lock` makes them. */

import { hostOf } from '../../core/address.js'
import type { Backend, Guarantees } from '../../core/backend.js'
import { InvalidInputError } from '../../core/errors.js'
import { LIMIT_MAX } from '../../core/line.js'
import { checkName, NAME_BYTES_MAX } from '../../core/names.js'
import { checkBoolean, checkInteger, checkKeys } from '../../core/options.js'
import { checkToken } from '../shared/opening.js'
import { ConsulClient } from './client.js'
import { Keys } from './keys.js'
import { ConsulStore } from './kv.js'
import { ConsulSessionBackend } from './session-backend.js'

export interface ConsulOptions extends ConsulRecipeOptions {
  /** Agents of one datacenter, like `127.0.0.1:8500` or `[::1]:8500`. The next is asked where one is not reached. */
  readonly hosts: readonly string[]
  /** Speak TLS. `ca`: the text of the certificate of the authority to trust, where it is not a public one. */
  readonly tls?: { readonly ca?: string } | undefined
  /** The ACL token. No variable of the environment is looked at. */
  readonly token?: string | undefined
  /** Default: the datacenter of the agent. */
  readonly datacenter?: string | undefined
}

export interface ConsulRecipeOptions {
  /** What the keys of all locks begin with. Default none, so that `mutex('orders')` is `consul lock orders`. */
  readonly prefix?: string | undefined
  /** Names are exact keys, for locks that other programs already use. Default false. */
  readonly exactPath?: boolean | undefined
  /** For how long after a holder is lost nobody gets the lock. 0 to 60,000; default 15,000, as Consul has it. */
  readonly lockDelayMs?: number | undefined
  /** The shortest ttl that the servers take: their `session_ttl_min`. Default 10,000, as Consul has it. */
  readonly ttlMinMs?: number | undefined
}

export const RECIPE_KEYS: readonly string[] = ['prefix', 'exactPath', 'lockDelayMs', 'ttlMinMs']

export const CONSUL_PORT = 8_500

/** The bounds that Consul sets. */
const TTL_MIN_MS = 10_000
const TTL_MAX_MS = 86_400_000
const LOCK_DELAY_MS = 15_000
const LOCK_DELAY_MAX_MS = 60_000
/** The record of a semaphore names every holder by a UUID, and a value has at most 512 KiB. */
const PERMITS_MAX = 10_000

/** Opens no connection yet: `open()` does, and rejects if no agent answers. */
export function consulBackend(options: ConsulOptions): Backend {
  const { client, rest } = clientFrom(options)
  return backendOver(client, rest)
}

/** A client for the agents that options name, and what else they say. */
export function clientFrom(options: ConsulOptions): {
  readonly client: ConsulClient
  readonly rest: ConsulRecipeOptions
} {
  checkKeys(options, ['hosts', 'tls', 'token', 'datacenter', ...RECIPE_KEYS])
  const { hosts, tls, token, datacenter, ...rest } = options
  if (!Array.isArray(hosts) || hosts.length === 0 || hosts.some((host) => typeof host !== 'string')) {
    throw new InvalidInputError('hosts', 'a list of addresses like `127.0.0.1:8500`', hosts)
  }
  if (tls !== undefined) checkKeys(tls, ['ca'], 'tls')
  const client = new ConsulClient({
    hosts: hosts.map((host) => hostOf(host, CONSUL_PORT)),
    tls: tls ?? null,
    token: token === undefined ? null : checkToken(token),
    datacenter: datacenter === undefined ? null : checkName(datacenter, 'datacenter'),
  })
  return { client, rest }
}

/** What the options say, checked, and what is left out as it is by default. */
export function checkRecipe(options: ConsulRecipeOptions): {
  readonly ttlMinMs: number
  readonly ttlMaxMs: number
  readonly lockDelayMs: number
  readonly keys: Keys
} {
  checkKeys(options, RECIPE_KEYS)
  return {
    ttlMinMs: checkInteger(options.ttlMinMs ?? TTL_MIN_MS, 'ttlMinMs', 1_000, TTL_MAX_MS),
    ttlMaxMs: TTL_MAX_MS,
    lockDelayMs: checkInteger(options.lockDelayMs ?? LOCK_DELAY_MS, 'lockDelayMs', 0, LOCK_DELAY_MAX_MS),
    keys: new Keys(options.prefix ?? '', checkBoolean(options.exactPath ?? false, 'exactPath')),
  }
}

/** The same over whatever leads to Consul. `close` ends the client. */
export function backendOver(client: ConsulClient, options: ConsulRecipeOptions): Backend {
  const { ttlMinMs, ttlMaxMs, lockDelayMs, keys } = checkRecipe(options)
  const guarantees: Guarantees = {
    keptBy: 'session',
    safety: 'consensus',
    // The index of the Raft log, which never goes back as long as there is one.
    fencing: 'strict',
    waiting: 'push',
    fair: false,
    weights: 'one',
    shows: 'claims',
    limitMax: Math.min(LIMIT_MAX, PERMITS_MAX),
    clock: 'server-monotonic',
    ttlMinMs,
    ttlMaxMs,
    ttlStepMs: 1,
    nameBytesMax: NAME_BYTES_MAX,
  }
  return new ConsulSessionBackend(new ConsulStore(client), keys, {
    guarantees,
    lockDelayMs,
    close: () => client.close(),
  })
}
