/** What can be chosen of the recipe `redlock`, checked before any I/O. */

import type { Backend } from '../../core/backend.js'
import { InvalidInputError, UnsupportedError } from '../../core/errors.js'
import { checkInteger, checkKeys, checkMs } from '../../core/options.js'
import { TIMER_MAX_MS } from '../../core/timing.js'
import { checkPrefix } from './backend.js'
import type { RedisClient } from './client.js'
import { linkOf } from './driver.js'
import type { RedisLink } from './link.js'
import { NxStore } from './nx-store.js'
import { RedlockBackend, TTL_MIN_MS } from './redlock-backend.js'
import { VotingNode } from './votes.js'

export interface RedlockRecipe {
  /** What the keys begin with. Default: nothing, so that the name is the key, as other programs have it. */
  readonly prefix?: string | undefined
  /**
   * How long one node may take for an answer. Default: a tenth of the ttl, but 50 to 500, and at most a quarter of the
   * ttl, so that what is left of the lease after a slow vote is of use.
   */
  readonly nodeMs?: number | undefined
  /** The longest ttl that anybody uses on these nodes. Default 60,000. */
  readonly maxTtlMs?: number | undefined
  /**
   * How long a node that restarted has no say, because it may have forgotten locks that are still held. Default:
   * `maxTtlMs`. 0 trusts a restarted node at once, which is right only where no write is lost by a crash.
   */
  readonly restartDelayMs?: number | undefined
}

export interface RedlockOptions extends RedlockRecipe {
  /** One ready client for each of three or more masters that know nothing of each other. Closing them stays with you. */
  readonly clients: readonly RedisClient[]
}

const KEYS: readonly string[] = ['prefix', 'nodeMs', 'maxTtlMs', 'restartDelayMs']
const NODES_MIN = 3
const NODES_MAX = 100
const MAX_TTL_MS = 60_000

export function redlockBackend(options: RedlockOptions): Backend {
  checkKeys(options, ['clients', ...KEYS])
  const { clients, ...recipe } = options
  const isCrowd = Array.isArray(clients) && clients.length >= NODES_MIN && clients.length <= NODES_MAX
  if (!isCrowd) {
    throw new InvalidInputError(
      'clients',
      `an array of ${NODES_MIN} or more clients, best an odd number`,
      clients,
    )
  }
  if (new Set(clients).size < clients.length) {
    throw new InvalidInputError('clients', 'an array of clients to different servers', 'one of them twice')
  }
  return redlockOver(
    clients.map((client, index) => linkOf(client, `clients[${index}]`)),
    recipe,
  )
}

/** The same over whatever leads to the nodes. */
export function redlockOver(links: readonly RedisLink[], options: RedlockRecipe): Backend {
  checkKeys(options, KEYS)
  if (links.length < NODES_MIN || links.length > NODES_MAX) {
    throw new InvalidInputError('nodes', `${NODES_MIN} or more, best an odd number`, links.length)
  }
  if (links.some((link) => link.isCluster)) {
    throw new UnsupportedError(
      'Redlock votes over single servers; a cluster is one node that can fail over.',
      {
        backend: 'redlock',
      },
    )
  }
  const maxTtlMs = checkInteger(options.maxTtlMs ?? MAX_TTL_MS, 'maxTtlMs', TTL_MIN_MS, TIMER_MAX_MS)
  const settings = {
    maxTtlMs,
    nodeMs: options.nodeMs === undefined ? null : checkMs(options.nodeMs, 'nodeMs', 1),
    restartDelayMs: checkMs(options.restartDelayMs ?? maxTtlMs, 'restartDelayMs', 0),
  }
  const prefix = checkPrefix(options.prefix ?? '')
  const nodes = links.map((link) => new VotingNode(new NxStore(link, prefix)))
  return new RedlockBackend(nodes, settings)
}
