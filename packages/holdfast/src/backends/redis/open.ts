/** Makes clients of its own from a URL, with the driver that is installed, tuned so that nothing waits in silence. */

import type { HostAndPort } from '../../core/address.js'
import type { Backend } from '../../core/backend.js'
import {
  BackendUnavailableError,
  HoldfastError,
  InvalidInputError,
  quote,
  UnsupportedError,
} from '../../core/errors.js'
import { loadDriver, type OptionReader, optionsFrom, readCa } from '../shared/opening.js'
import { parseRedisUrl, type RedisAddress } from './address.js'
import { backendOver } from './backend.js'
import type { RedisClient, RedisDriverName } from './client.js'
import { within } from './clock.js'
import { linkOf } from './driver.js'
import { redisError } from './errors.js'
import type { End, RedisLink } from './link.js'
import { openWithIoredis } from './open-ioredis.js'
import { openWithNodeRedis } from './open-node-redis.js'
import { redlockOver } from './redlock.js'

/** A client of our own, connected, and how to end it. */
export interface OwnClient {
  readonly client: RedisClient
  readonly end: End
}

/** What both drivers need to know beside the address. */
export interface OpenContext {
  readonly ca: string | undefined
}

const CONNECT_MS = 10_000

const LINE_OPTIONS: ReadonlyMap<string, OptionReader> = new Map<string, OptionReader>([
  ['recipe', String],
  ['prefix', String],
  ['fenceMemoryMs', Number],
  ['waitReplicas', Number],
  ['waitReplicasMs', Number],
])
const REDLOCK_OPTIONS: ReadonlyMap<string, OptionReader> = new Map<string, OptionReader>([
  ['prefix', String],
  ['nodeMs', Number],
  ['maxTtlMs', Number],
  ['restartDelayMs', Number],
])
export const OWN_OPTIONS: readonly string[] = ['driver', 'ca']

/** The backend that a URL asks for, over clients that end with it. */
export async function openRedis(url: string): Promise<Backend> {
  const address = parseRedisUrl(url)
  const isRedlock = address.topology === 'redlock'
  const options = optionsFrom(address.options, isRedlock ? REDLOCK_OPTIONS : LINE_OPTIONS, OWN_OPTIONS)
  return await overLinks(address, (links) =>
    isRedlock ? redlockOver(links, options) : backendOver(links[0], options),
  )
}

/** What is made over new links; where it cannot be, they are ended. */
export async function overLinks<T>(
  address: RedisAddress,
  make: (links: readonly [RedisLink, ...RedisLink[]]) => T,
): Promise<T> {
  const links = await openLinks(address)
  try {
    return make(links)
  } catch (error) {
    await Promise.all(links.map((link) => link.close()))
    throw error
  }
}

/** One link for each independent part: each master of a redlock, or the whole of anything else. */
export async function openLinks(address: RedisAddress): Promise<readonly [RedisLink, ...RedisLink[]]> {
  const { topology, hosts } = address
  const parts: RedisAddress[] =
    topology === 'redlock'
      ? hosts.map((host) => ({ ...address, topology: 'single' as const, hosts: [host] as const }))
      : [address]
  const context = { ca: await caOf(address) }
  const opened = await Promise.allSettled(parts.map((part) => openOne(part, context)))
  const links = opened.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  const failed = opened.find((each) => each.status === 'rejected')
  // A redlock lives with the loss of a minority, but not from the first moment: then an address is more likely wrong.
  if (failed !== undefined) {
    await Promise.all(links.map((link) => link.close()))
    throw failed.reason
  }
  return links as unknown as [RedisLink, ...RedisLink[]]
}

async function openOne(address: RedisAddress, context: OpenContext): Promise<RedisLink> {
  const [host] = address.hosts
  try {
    const { client, end } = await openClient(address, context)
    return linkOf(client, 'client', end)
  } catch (error) {
    if (error instanceof HoldfastError) throw error
    const known = redisError(error)
    if (known instanceof UnsupportedError) throw known
    throw unreachable(host, error)
  }
}

async function openClient(address: RedisAddress, context: OpenContext): Promise<OwnClient> {
  const wanted = driverOf(address)
  if (wanted !== 'redis') {
    const ioredis = await loadDriver('ioredis', 'redis')
    if (ioredis !== null) return await connected(address, openWithIoredis(ioredis, address, context))
  }
  if (wanted !== 'ioredis') {
    const redis = await loadDriver('redis', 'redis')
    if (redis !== null) return await connected(address, openWithNodeRedis(redis, address, context))
  }
  throw new UnsupportedError(
    `Redis needs a driver. Run \`npm install ${wanted ?? 'ioredis'}\`${wanted === null ? ', or `npm install redis`' : ''}.`,
    { backend: 'redis' },
  )
}

/** Drivers go on trying for ever; whoever asked for the locks should hear that there is nobody. */
async function connected(
  address: RedisAddress,
  { client, end, ready }: OwnClient & { readonly ready: Promise<unknown> },
): Promise<OwnClient> {
  try {
    await within(CONNECT_MS, ready, () => {
      throw unreachable(address.hosts[0], null)
    })
    return { client, end }
  } catch (error) {
    await end()
    throw error
  }
}

function unreachable({ host, port }: HostAndPort, cause: unknown): BackendUnavailableError {
  const why = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : ''
  return new BackendUnavailableError(
    `Redis at ${quote(`${host}:${port}`)} was not reached${why}. Check that it runs, and that this machine may reach it.`,
    { backend: 'redis', cause },
  )
}

function driverOf({ options }: RedisAddress): RedisDriverName | null {
  const driver = options.get('driver')
  if (driver === undefined) return null
  if (driver !== 'ioredis' && driver !== 'redis') {
    throw new InvalidInputError('driver', "'ioredis' or 'redis'", driver)
  }
  return driver
}

async function caOf({ options, tls }: RedisAddress): Promise<string | undefined> {
  const path = options.get('ca')
  if (path === undefined) return undefined
  if (!tls) throw new InvalidInputError('ca', 'left out, or the URL to begin with `rediss:`', path)
  return await readCa(path, 'redis')
}
