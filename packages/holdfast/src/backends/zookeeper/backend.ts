/** Locks in ZooKeeper, by one of two recipes. */

import type { HostAndPort } from '../../core/address.js'
import type { Backend } from '../../core/backend.js'
import { InvalidInputError } from '../../core/errors.js'
import { checkBoolean, checkInteger, checkKeys } from '../../core/options.js'
import { ConnectionBackend } from '../sessions/connection-backend.js'
import { LineBackend } from '../sessions/line-backend.js'
import { checkBase } from '../shared/names.js'
import { Connections } from './connections.js'
import { EphemeralNode } from './ephemeral.js'
import { EXACT_PATHS, partsBelow } from './layout.js'
import { SequentialNodes } from './sequential.js'
import {
  type Acl,
  CREATOR_ACL,
  type Credential,
  OPEN_ACL,
  type TlsSettings,
  type ZooKeeperOptions,
} from './wire/zookeeper.js'

export type ZookeeperRecipe = 'sequential' | 'ephemeral'

export interface ZookeeperOptions extends ZookeeperRecipeOptions {
  readonly hosts: readonly HostAndPort[]
  /** For example `{ scheme: 'digest', credential: 'user:password' }`. */
  readonly auth?: readonly Credential[] | undefined
  readonly tls?: TlsSettings | undefined
}

export interface ZookeeperRecipeOptions {
  /**
   * `sequential`, the default: a fair line in the layout of Apache Curator, with shared and weighted claims. `ephemeral`:
   * one node that everybody watches, exclusive and unfair.
   */
  readonly recipe?: ZookeeperRecipe | undefined
  /** The path that all locks are below. Default `/holdfast`; `/` for none. */
  readonly base?: string | undefined
  /** Names are whole paths, for locks that other programs have already. Default false. */
  readonly exactPath?: boolean | undefined
  /**
   * How long the servers keep the locks of a process that they do not hear from. A ttl is at most two thirds of it.
   * Default 45,000. Servers have limits of their own, by default 40,000 at most.
   */
  readonly sessionMs?: number | undefined
  /** `open`: everybody may see and remove locks. `creator`: only who has the same `auth`. Default `open`. */
  readonly acl?: 'open' | 'creator' | undefined
}

export const RECIPE_KEYS: readonly string[] = ['recipe', 'base', 'exactPath', 'sessionMs', 'acl']

export const DEFAULT_BASE = '/holdfast'
export const SESSION_MS = 45_000
const SESSION_MS_MAX = 24 * 60 * 60 * 1_000
const ACLS: ReadonlyMap<string, readonly Acl[]> = new Map([
  ['open', OPEN_ACL],
  ['creator', CREATOR_ACL],
])

/** Opens the first session, because what the servers grant decides what the locks can promise. */
export async function zookeeperBackend(options: ZookeeperOptions): Promise<Backend> {
  checkKeys(options, ['hosts', 'auth', 'tls', ...RECIPE_KEYS])
  const { recipe = 'sequential', base = DEFAULT_BASE, exactPath = false } = options
  const { connection, acl } = checkedConnection(options)
  if (recipe !== 'sequential' && recipe !== 'ephemeral') {
    throw new InvalidInputError('recipe', "'sequential' or 'ephemeral'", recipe)
  }
  const layout = checkBoolean(exactPath, 'exactPath') ? EXACT_PATHS : partsBelow(checkBase(base, 'base'))
  const connections = new Connections(connection)
  const nodes = {
    layout,
    acl,
    ttlMaxMs: await connections.open(),
    start: (ended: () => void) => connections.start(ended),
    looking: () => connections.looking(),
    close: () => connections.close(),
  }
  return recipe === 'sequential'
    ? new LineBackend(new SequentialNodes(nodes))
    : new ConnectionBackend(new EphemeralNode(nodes))
}

/** How servers are reached, and who may see what is made there. */
export function checkedConnection({
  hosts,
  auth = [],
  tls,
  ...options
}: Pick<ZookeeperOptions, 'hosts' | 'auth' | 'tls' | 'sessionMs' | 'acl'>): {
  readonly connection: ZooKeeperOptions
  readonly acl: readonly Acl[]
} {
  const sessionMs = checkInteger(options.sessionMs ?? SESSION_MS, 'sessionMs', 1_000, SESSION_MS_MAX)
  const acl = ACLS.get(options.acl ?? 'open')
  if (acl === undefined) throw new InvalidInputError('acl', "'open' or 'creator'", options.acl)
  if (acl === CREATOR_ACL && auth.length === 0) {
    throw new InvalidInputError('acl', "'open', or `auth` to be given", options.acl)
  }
  return { connection: { hosts, sessionMs, auth, ...(tls === undefined ? {} : { tls }) }, acl }
}
