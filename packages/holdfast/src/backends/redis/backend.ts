/** Locks in Redis or Valkey, by one of two recipes, over a ready client of `ioredis` or `redis`. */

import type { Backend } from '../../core/backend.js'
import { InvalidInputError, UnsupportedError } from '../../core/errors.js'
import { checkInteger, checkKeys, checkMs } from '../../core/options.js'
import type { RedisClient } from './client.js'
import { randomName } from './clock.js'
import { linkOf } from './driver.js'
import { LineBackend } from './line.js'
import type { RedisLink } from './link.js'
import { SetNxBackend } from './set-nx.js'

export type RedisRecipe = 'line' | 'set-nx'

export interface RedisOptions extends RecipeOptions {
  /** A ready client. Holdfast opens one more connection like it to listen on; closing this one stays with you. */
  readonly client: RedisClient
}

export interface RecipeOptions {
  /**
   * `line`, the default: a fair line with push, shared and weighted claims. `set-nx`: the classic `SET NX PX`, to
   * exclude other programs that lock that way.
   */
  readonly recipe?: RedisRecipe | undefined
  /** What the keys begin with. Default `holdfast:` for `line`, and nothing for `set-nx`: there the name is the key. */
  readonly prefix?: string | undefined
  /** How long the last fence of a name outlives its last claim: the largest step back of the server's clock that it survives. Default 60,000. */
  readonly fenceMemoryMs?: number | undefined
  /** How many replicas must have confirmed a grant, a place or a renewal before it counts. Default 0. */
  readonly waitReplicas?: number | undefined
  /** How long they may take for that. Default 1,000. */
  readonly waitReplicasMs?: number | undefined
}

const KEYS: readonly string[] = ['recipe', 'prefix', 'fenceMemoryMs', 'waitReplicas', 'waitReplicasMs']
const PREFIX_BYTES_MAX = 256
export const REPLICAS_MAX = 100

export function redisBackend(options: RedisOptions): Backend {
  checkKeys(options, ['client', ...KEYS])
  const { client, ...rest } = options
  return backendOver(linkOf(client), rest)
}

/** The same over whatever leads to Redis. */
export function backendOver(link: RedisLink, options: RecipeOptions): Backend {
  checkKeys(options, KEYS)
  const recipe = options.recipe ?? 'line'
  if (recipe !== 'line' && recipe !== 'set-nx') {
    throw new InvalidInputError('recipe', "'line' or 'set-nx'", recipe)
  }
  const prefix = checkPrefix(options.prefix ?? (recipe === 'line' ? 'holdfast:' : ''))
  const fenceMemoryMs = checkMs(options.fenceMemoryMs ?? 60_000, 'fenceMemoryMs', 1)
  const waitReplicas = checkInteger(options.waitReplicas ?? 0, 'waitReplicas', 0, REPLICAS_MAX)
  const waitReplicasMs = checkMs(options.waitReplicasMs ?? 1_000, 'waitReplicasMs', 1)
  if (recipe === 'set-nx') {
    if (waitReplicas > 0) {
      throw new UnsupportedError(
        '`waitReplicas` needs the recipe `line`: `set-nx` is the classic recipe as it is.',
        {
          backend: 'redis',
        },
      )
    }
    return new SetNxBackend(link, { prefix })
  }
  return new LineBackend(link, {
    prefix,
    channelPrefix: `${prefix}push:`,
    channel: randomName(),
    fenceMemoryMs,
    waitReplicas,
    waitReplicasMs,
  })
}

export function checkPrefix(value: unknown): string {
  const isText =
    typeof value === 'string' && value.isWellFormed() && Buffer.byteLength(value) <= PREFIX_BYTES_MAX
  if (!isText || /\s/.test(value)) {
    throw new InvalidInputError('prefix', `a text of at most ${PREFIX_BYTES_MAX} bytes without spaces`, value)
  }
  return value
}
