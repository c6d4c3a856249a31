/** Three ways to keep tokens in Redis that are all in use. Each of them is broken in a way of its own. */

import type { Redis } from 'ioredis'
import type { LabWorld } from '../../lock.js'
import { redisClient } from '../redis/client.js'
import { DONE_ALREADY, newReceipt, PaymentService } from './service.js'

const TOKEN_LIFE_S = 600

abstract class RedisTokens extends PaymentService {
  protected readonly redis: Redis

  constructor(world: LabWorld) {
    super(world)
    this.redis = redisClient(world.url)
  }

  protected async issue(token: string): Promise<void> {
    await this.redis.set(keyOf(token), '0', 'EX', TOKEN_LIFE_S)
  }

  protected async payOnce(token: string): Promise<string> {
    await this.world.point('before the work')
    const receipt = newReceipt()
    this.paying(token, receipt)
    await this.redis.rpush('payments', `${token} ${receipt}`)
    this.paid(token, receipt)
    return receipt
  }

  async close(): Promise<void> {
    this.redis.disconnect()
  }
}

/** Counts the requests under a token; the first one does the work. */
export class TokenCounted extends RedisTokens {
  protected async handle(token: string): Promise<string> {
    return (await this.redis.incr(keyOf(token))) === 1 ? await this.payOnce(token) : DONE_ALREADY
  }
}

/** Looks for the token, does the work, and deletes the token. */
export class TokenDeletedAfter extends RedisTokens {
  protected async handle(token: string): Promise<string> {
    if ((await this.redis.get(keyOf(token))) === null) return DONE_ALREADY
    const receipt = await this.payOnce(token)
    await this.redis.del(keyOf(token))
    return receipt
  }
}

/** Deletes the token, and does the work if it was the one that deleted it. */
export class TokenDeletedFirst extends RedisTokens {
  protected async handle(token: string): Promise<string> {
    return (await this.redis.del(keyOf(token))) === 1 ? await this.payOnce(token) : DONE_ALREADY
  }
}

function keyOf(token: string): string {
  return `token:${token}`
}
