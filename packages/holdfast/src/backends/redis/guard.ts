/**
 * Guards keys of a Redis server: what is written with a fence that is older than one already seen is refused. This is
 * the resource's side of fencing, so it is for the data, wherever the locks themselves are.
 */

import { InvalidInputError, quote, StaleFenceError } from '../../core/errors.js'
import { checkFence, checkInteger, checkKeys } from '../../core/options.js'
import type { RedisClient } from './client.js'
import { linkOf } from './driver.js'
import { redisError, redisErrorCode, stepError, strangeAnswer } from './errors.js'
import { source } from './guard.lua'
import type { RedisLink } from './link.js'
import { Script } from './script.js'
import { slotOf } from './slot.js'

export interface RedisGuardOptions {
  /**
   * How long the highest fence of a key is remembered after the last guarded use. By default for ever, which costs one
   * small key beside each guarded one. A writer that was paused for longer than this is no longer recognised as stale,
   * so it must be longer than any pause can be: days, and not the `ttlMs` of the lock.
   */
  readonly memoryMs?: number
}

export interface GuardedSetOptions {
  /** How long the value lives. Left out: until it is deleted. */
  readonly ttlMs?: number
}

/**
 * Every method that takes a fence rejects with `StaleFenceError` if a higher one was seen for the key. An equal one
 * passes, because one hold may write many times. A rejection with `OutcomeUnknownError` leaves open whether it happened;
 * the same `set` or `del` may then be repeated with the same fence.
 */
export interface RedisGuard {
  /** Shows the fence and nothing else. Call it before you read what you are going to change: fence first, then read. */
  advance(key: string, fence: bigint): Promise<void>
  set(key: string, value: string, fence: bigint, options?: GuardedSetOptions): Promise<void>
  /** Whether there was something to delete. The highest fence stays remembered. */
  del(key: string, fence: bigint): Promise<boolean>
  /**
   * Any command whose first argument is the key, such as `run('cart:7', fence, 'HSET', ['total', '12'])`, and gives back
   * what the server answered.
   */
  run(key: string, fence: bigint, command: string, args?: readonly string[]): Promise<unknown>
  /**
   * Only looks: nothing is noted, and it says nothing about the next moment. For work that is too long to start in vain;
   * a write must go through `set`, `del` or `run` all the same.
   */
  check(key: string, fence: bigint): Promise<void>
  /** The highest fence seen; null if none was, or if it is no longer remembered. */
  highest(key: string): Promise<bigint | null>
  /** Forgets a key that is gone for good. */
  forget(key: string): Promise<void>
}

const STORED_FENCE = /^(0|[1-9]\d{0,19})$/

/** Names that had to be searched for. Dropping them only costs the search again. */
const SEARCHED_MAX = 1_000

const SCRIPT = new Script(source)

/**
 * A guard over a ready client of `ioredis` or `redis`, single, Sentinel or Cluster. All writers of a key must use it,
 * because the server cannot refuse what goes past it.
 */
export function redisGuard(client: RedisClient, options: RedisGuardOptions = {}): RedisGuard {
  checkKeys(options, ['memoryMs'])
  const memoryMs = options.memoryMs === undefined ? 0 : checkLifetime(options.memoryMs, 'memoryMs')
  return new Guard(linkOf(client), memoryMs)
}

class Guard implements RedisGuard {
  readonly #link: RedisLink
  readonly #memoryMs: number
  readonly #searched = new Map<string, string>()

  constructor(link: RedisLink, memoryMs: number) {
    this.#link = link
    this.#memoryMs = memoryMs
  }

  async advance(key: string, fence: bigint): Promise<void> {
    await this.#pass(key, fence, [])
  }

  async set(key: string, value: string, fence: bigint, options: GuardedSetOptions = {}): Promise<void> {
    checkKeys(options, ['ttlMs'])
    if (typeof value !== 'string') throw new InvalidInputError('value', 'a text', value)
    const { ttlMs } = options
    const lifetime = ttlMs === undefined ? [] : ['PX', String(checkLifetime(ttlMs, 'ttlMs'))]
    await this.#pass(key, fence, ['SET', value, ...lifetime])
  }

  async del(key: string, fence: bigint): Promise<boolean> {
    return Number(await this.#pass(key, fence, ['DEL'])) > 0
  }

  async run(key: string, fence: bigint, command: string, args: readonly string[] = []): Promise<unknown> {
    if (typeof command !== 'string' || !/^[a-z.]+$/i.test(command)) {
      throw new InvalidInputError('command', 'the name of a Redis command', command)
    }
    if (!Array.isArray(args) || !args.every((arg) => typeof arg === 'string')) {
      throw new InvalidInputError('args', 'an array of texts', args)
    }
    return await this.#pass(key, fence, [command, ...args])
  }

  async check(key: string, fence: bigint): Promise<void> {
    checkFence(fence)
    const highest = await this.highest(key)
    if (highest !== null && fence < highest) throw new StaleFenceError(fence, highest, contextOf(key))
  }

  async highest(key: string): Promise<bigint | null> {
    const answer = await this.#send(key, ['GET', this.#fenceKey(key)])
    if (answer === null) return null
    if (typeof answer === 'string' && STORED_FENCE.test(answer)) return BigInt(answer)
    throw stepError('HOLDFAST damaged: the highest fence', key)
  }

  async forget(key: string): Promise<void> {
    await this.#send(key, ['DEL', this.#fenceKey(key)])
  }

  async #pass(key: string, fence: bigint, command: readonly string[]): Promise<unknown> {
    checkFence(fence)
    const keys = [key, this.#fenceKey(key)]
    const args = [String(fence), String(this.#memoryMs), ...command]
    let answer: unknown
    try {
      answer = await SCRIPT.run((script) => this.#link.send(key, script), keys, args)
    } catch (error) {
      throw guardError(error, key)
    }
    if (!Array.isArray(answer)) throw strangeAnswer(answer)
    const [passed, detail]: readonly unknown[] = answer
    if (passed === '1') return detail
    if (passed !== '0' || typeof detail !== 'string') throw strangeAnswer(detail)
    throw new StaleFenceError(fence, BigInt(detail), contextOf(key))
  }

  async #send(key: string, command: readonly string[]): Promise<unknown> {
    try {
      return await this.#link.send(key, command)
    } catch (error) {
      throw guardError(error, key)
    }
  }

  #fenceKey(key: string): string {
    checkKey(key)
    const full = this.#link.keyPrefix + key
    const filler = this.#searched.get(full) ?? fillerOf(full)
    if (filler !== '' && filler !== full) {
      if (this.#searched.size >= SEARCHED_MAX) this.#searched.clear()
      this.#searched.set(full, filler)
    }
    return fenceKeyOf(key, filler)
  }
}

/** The name of the key that remembers the highest fence of another one, which lies in the same slot of a cluster. */
export function fenceKeyFor(key: string): string {
  return fenceKeyOf(key, fillerOf(key))
}

/**
 * The guarded key comes first, so that what a client puts before every key, and the rights of a user on keys that begin
 * in some way, apply to both. The filler has no braces, so the last pair is always ours, and no two keys share a name.
 */
function fenceKeyOf(key: string, filler: string): string {
  return `${key}{${filler}}:fence`
}

/**
 * What to put between the braces. A key with a `{tag}` keeps it, because the first pair counts. One without any braces
 * becomes the tag itself. What is left has braces that are not a tag, such as `}` alone or an empty pair: for those the
 * first number that leads to the slot is taken, which everybody finds alike.
 */
function fillerOf(key: string): string {
  const slot = slotOf(key)
  const fits = (filler: string): boolean => slotOf(fenceKeyOf(key, filler)) === slot
  if (fits('')) return ''
  if (!/[{}]/.test(key)) return key
  for (let number = 0; ; number += 1) if (fits(String(number))) return String(number)
}

/** What a command of the caller's own met is the caller's to understand, so it is given back as the server said it. */
function guardError(error: unknown, key: string): unknown {
  return redisErrorCode(error) === 'WRONGTYPE' ? error : redisError(error, key)
}

function contextOf(key: string): { readonly resource: string; readonly backend: string } {
  return { resource: key, backend: 'redis' }
}

function checkKey(key: unknown): void {
  if (typeof key !== 'string' || key === '') throw new InvalidInputError('key', 'the name of a key', key)
  if (!key.isWellFormed()) {
    throw new InvalidInputError('key', `a text without lone surrogates, unlike ${quote(key)}`, key.length)
  }
}

function checkLifetime(value: unknown, what: string): number {
  return checkInteger(value, what, 1, Number.MAX_SAFE_INTEGER)
}
