/**
 * The URLs of databases:
 *
 *     postgres://[user[:password]@]host[:port]/database      also postgresql:
 *     mysql://[user[:password]@]host[:port]/database          also mariadb:
 *
 * with options behind a question mark. `sslmode` is `disable` (the default), `require` (encrypted, whoever it is) or
 * `verify-full` (encrypted, and the certificate must be right); `ca` is the path of the certificate to trust.
 */

import { decoded, hostOf, splitUrl } from '../../core/address.js'
import { InvalidInputError } from '../../core/errors.js'
import { type OptionReader, optionsFrom, readCa } from '../shared/opening.js'

export interface SqlAddress {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string | undefined
  readonly database: string
  readonly options: ReadonlyMap<string, string>
}

export interface SqlScheme {
  readonly backend: string
  readonly schemes: readonly string[]
  readonly port: number
  readonly user: string
  readonly database: string
}

export interface TlsSettings {
  readonly rejectUnauthorized: boolean
  readonly ca?: string
}

/** The options of a URL that are for the pool and not for the backend. */
export const POOL_OPTIONS: readonly string[] = ['max', 'sslmode', 'ca']

const POOL_MAX = 1_000
/** One to listen or to keep, and enough for what one process has under way at a time. */
const POOL_DEFAULT = 10

export function parseSqlUrl(url: string, scheme: SqlScheme): SqlAddress {
  const parts = splitUrl(url)
  const [first = ''] = scheme.schemes
  if (parts === null || !scheme.schemes.includes(parts.scheme)) {
    throw new InvalidInputError('url', `like \`${first}://user@host:${scheme.port}/database\``, url.length)
  }
  const database = decoded(parts.path.slice(1))
  if (database.includes('/'))
    throw new InvalidInputError('url', 'with one database as its path', parts.path.length)
  const { username, password } = parts.credentials
  return {
    ...hostOf(parts.authority, scheme.port),
    user: username ?? scheme.user,
    password,
    database: database === '' ? scheme.database : database,
    options: parts.options,
  }
}

export function backendOptionsOf(
  { options }: SqlAddress,
  known: ReadonlyMap<string, OptionReader>,
): Record<string, unknown> {
  return optionsFrom(options, known, POOL_OPTIONS)
}

export function poolMaxOf({ options }: SqlAddress): number {
  const text = options.get('max')
  if (text === undefined) return POOL_DEFAULT
  const max = Number(text)
  if (!Number.isInteger(max) || max < 1 || max > POOL_MAX) {
    throw new InvalidInputError('max', `a whole number from 1 to ${POOL_MAX}`, text)
  }
  return max
}

/** null: not encrypted. */
export async function tlsOf({ options }: SqlAddress, backend: string): Promise<TlsSettings | null> {
  const mode = options.get('sslmode') ?? 'disable'
  const path = options.get('ca')
  if (mode === 'disable') {
    if (path !== undefined)
      throw new InvalidInputError('ca', 'left out, or `sslmode` to be `verify-full`', path)
    return null
  }
  if (mode !== 'require' && mode !== 'verify-full') {
    throw new InvalidInputError('sslmode', "'disable', 'require' or 'verify-full'", mode)
  }
  const ca = path === undefined ? {} : { ca: await readCa(path, backend) }
  return { rejectUnauthorized: mode === 'verify-full', ...ca }
}
