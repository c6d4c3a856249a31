/** Locks in etcd, by the recipe of its own Go package, over `@grpc/grpc-js`. */

import type { Backend } from '../../core/backend.js'
import { InvalidInputError } from '../../core/errors.js'
import { hasControl } from '../../core/names.js'
import { checkKeys } from '../../core/options.js'
import { LineBackend } from '../sessions/line-backend.js'
import type { EtcdAccess, EtcdTls, Grpc } from './client.js'
import { Layout, type LayoutOptions } from './layout.js'
import { EtcdLink } from './link.js'
import { type EtcdNode, EtcdNodes } from './nodes.js'
import type { EtcdSession } from './session.js'
import { warnOfVersion } from './version.js'

export interface EtcdOptions extends EtcdLineOptions {
  /** The module `@grpc/grpc-js`. */
  readonly grpc: Grpc
  /** `host:port` of the members. */
  readonly endpoints: readonly string[]
  /** Speaks TLS, with these texts in PEM form; `{}` trusts what the system trusts. */
  readonly tls?: EtcdTls | undefined
  readonly username?: string | undefined
  readonly password?: string | undefined
}

export interface EtcdLineOptions {
  /** What all keys begin with. Default: nothing, so that `etcdctl lock orders` meets `mutex('orders')`. */
  readonly prefix?: string | undefined
  /** Uses names as they are, with slashes and all, for locks that other programs use already. Default false. */
  readonly exactPath?: boolean | undefined
  /** Whether to warn of servers whose versions are known to lose leases. Default true. */
  readonly versionWarning?: boolean | undefined
}

const LINE_KEYS: readonly string[] = ['prefix', 'exactPath', 'versionWarning']
const KEYS: readonly string[] = ['grpc', 'endpoints', 'tls', 'username', 'password', ...LINE_KEYS]
const PREFIX_BYTES_MAX = 256

export function etcdBackend(options: EtcdOptions): Backend {
  const { link, rest } = linkFrom(options)
  return backendOver(link, rest)
}

/** A way to the servers that options name, and what else they say. Connects to nobody yet. */
export function linkFrom(options: EtcdOptions): { readonly link: EtcdLink; readonly rest: EtcdLineOptions } {
  checkKeys(options, KEYS)
  const { grpc, endpoints, tls, username, password, ...rest } = options
  if (typeof grpc?.Client !== 'function') {
    throw new InvalidInputError('grpc', 'the module `@grpc/grpc-js`', grpc)
  }
  if (!Array.isArray(endpoints) || endpoints.length === 0 || !endpoints.every(isEndpoint)) {
    throw new InvalidInputError('endpoints', 'an array of texts like `host:2379`', endpoints)
  }
  const access: EtcdAccess = { endpoints, tls: tls ?? null, username, password }
  return { link: new EtcdLink(grpc, access), rest }
}

/** The same over a way that is there. */
export function backendOver(link: EtcdLink, options: EtcdLineOptions): Backend {
  return new EtcdBackend(link, new EtcdNodes(link, layoutFrom(options)), options.versionWarning ?? true)
}

/** The line, and a look at the version when it is opened. */
class EtcdBackend extends LineBackend<EtcdSession, EtcdNode> {
  readonly #link: EtcdLink
  readonly #warns: boolean

  constructor(link: EtcdLink, nodes: EtcdNodes, warns: boolean) {
    super(nodes)
    this.#link = link
    this.#warns = warns
  }

  override async open(...args: Parameters<Backend['open']>): Promise<void> {
    await super.open(...args)
    if (this.#warns) await warnOfVersion(this.#link)
  }
}

/** Where the claims are. All options are looked at, so that a wrong one is refused before anybody is asked. */
export function layoutFrom(options: EtcdLineOptions): Layout {
  return new Layout(checkLine(options))
}

export function checkLine(options: EtcdLineOptions): LayoutOptions & { readonly warns: boolean } {
  checkKeys(options, LINE_KEYS)
  return {
    prefix: checkPrefix(options.prefix ?? ''),
    exactPath: checkFlag(options.exactPath ?? false, 'exactPath'),
    warns: checkFlag(options.versionWarning ?? true, 'versionWarning'),
  }
}

function checkPrefix(value: unknown): string {
  const isText =
    typeof value === 'string' && value.isWellFormed() && Buffer.byteLength(value) <= PREFIX_BYTES_MAX
  if (!isText || hasControl(value)) {
    throw new InvalidInputError(
      'prefix',
      `a text of at most ${PREFIX_BYTES_MAX} bytes, such as \`locks/\``,
      value,
    )
  }
  return value
}

function checkFlag(value: unknown, what: string): boolean {
  if (typeof value !== 'boolean') throw new InvalidInputError(what, 'true or false', value)
  return value
}

function isEndpoint(value: unknown): boolean {
  return typeof value === 'string' && /^[^\s/]+:\d{1,5}$/.test(value)
}
