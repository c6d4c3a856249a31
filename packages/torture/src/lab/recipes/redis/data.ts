import { redisGuard } from 'holdfast/fencing'
import type { Redis } from 'ioredis'
import type { LabHold, LabWorld } from '../../lock.js'
import type { Protected } from '../ours.js'
import { redisClient } from './client.js'

function keyOf(name: string): string {
  return `data:${name}`
}

/** Numbers in a key of Redis that anybody may write, at any time. */
export class PlainData implements Protected {
  readonly #redis: Redis

  constructor(url: string) {
    this.#redis = redisClient(url)
  }

  async read(name: string): Promise<readonly number[]> {
    return numbersIn(await this.#redis.get(keyOf(name)))
  }

  async write(name: string, values: readonly number[]): Promise<void> {
    await this.#redis.set(keyOf(name), values.join(','))
  }

  async close(): Promise<void> {
    this.#redis.disconnect()
  }
}

/** The same numbers behind a guard that refuses a fence lower than one that it has seen. */
export class GuardedData implements Protected {
  readonly #redis: Redis
  readonly #guard: ReturnType<typeof redisGuard>

  constructor(url: string) {
    this.#redis = redisClient(url)
    this.#guard = redisGuard(this.#redis)
  }

  /** Shows the fence first: from then on nobody with a lower one can change what is read. */
  async read(name: string, hold: LabHold | null): Promise<readonly number[]> {
    await this.#guard.advance(keyOf(name), fenceOf(hold))
    return numbersIn(await this.#redis.get(keyOf(name)))
  }

  async write(name: string, values: readonly number[], hold: LabHold | null): Promise<void> {
    await this.#guard.set(keyOf(name), values.join(','), fenceOf(hold))
  }

  async close(): Promise<void> {
    this.#redis.disconnect()
  }
}

function numbersIn(text: string | null): readonly number[] {
  return text === null || text === '' ? [] : text.split(',').map(Number)
}

/** Where the data are: beside the locks, unless the schedule says otherwise. */
export function dataUrlOf(world: LabWorld): string {
  const { dataUrl } = world.settings
  return typeof dataUrl === 'string' ? dataUrl : world.url
}

function fenceOf(hold: LabHold | null): bigint {
  if (hold?.fence === undefined) throw new Error('Nobody writes here without a fence.')
  return hold.fence
}
