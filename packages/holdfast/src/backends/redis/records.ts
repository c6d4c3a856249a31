/**
 * Records of idempotency in Redis or Valkey: one hash for each, in which `records.lua` does by the server's clock what
 * the rule says, one call for each question.
 */

import type { Renewal } from '../../core/backend.js'
import { ClosedError, OutcomeUnknownError } from '../../core/errors.js'
import { checkInteger, checkKeys, checkMs } from '../../core/options.js'
import type {
  ClaimAnswer,
  ClaimAsk,
  ClaimRef,
  FinishAnswer,
  FinishAsk,
  ProgressAsk,
  RecordStore,
  RecordTraits,
  RecordView,
  RenewAsk,
  SpendAnswer,
  SpendAsk,
} from '../../core/records.js'
import { TIMER_MAX_MS } from '../../core/timing.js'
import { checkPrefix, REPLICAS_MAX } from './backend.js'
import type { RedisClient } from './client.js'
import { randomName, renewGraceMs, settledSoon } from './clock.js'
import { linkOf } from './driver.js'
import { changeNotReplicated, claimNotReplicated, hungNode, redisError, redisErrorCode } from './errors.js'
import type { RedisLink, RedisNode } from './link.js'
import { foreignRecord, readClaim, readFlag, readSpend, readView, refusalIn } from './record-answers.js'
import { source } from './records.lua'
import { type Confirmed, ConfirmedCalls, type ReplicaOptions } from './replicas.js'
import { Script } from './script.js'

export interface RedisRecordsOptions extends RecordsOptions {
  /** A ready client of `ioredis` or `redis`: single, Sentinel or Cluster. Closing it stays with you. */
  readonly client: RedisClient
}

export interface RecordsOptions {
  /** What the keys begin with. Default `holdfast:idem:`. */
  readonly prefix?: string | undefined
  /** How many replicas must have confirmed a claim, a renewal, progress and an end before it counts. Default 0. */
  readonly waitReplicas?: number | undefined
  /** How long they may take for that. Default 1,000. */
  readonly waitReplicasMs?: number | undefined
}

const KEYS: readonly string[] = ['prefix', 'waitReplicas', 'waitReplicasMs']
const DEFAULT_PREFIX = 'holdfast:idem:'
const FOR_EVER = '-'

const TRAITS: Omit<RecordTraits, 'keeps'> = {
  // Fences come from the server's clock and the last one seen; a failover to a server whose clock is behind can lose both.
  fencing: 'best-effort',
  // Far below what a text in Redis may be, and about as much as everybody else can be made to wait for.
  bytesMax: 16 * 1024 * 1024,
  leaseMinMs: 50,
  leaseMaxMs: TIMER_MAX_MS,
  retentionMaxMs: null,
}

const SCRIPT = new Script(source)

/** Records over a ready client. */
export function redisRecords(options: RedisRecordsOptions): RecordStore {
  checkKeys(options, ['client', ...KEYS])
  const { client, ...rest } = options
  return recordsOver(linkOf(client), rest)
}

/** The same over whatever leads to Redis. */
export function recordsOver(link: RedisLink, options: RecordsOptions): RecordStore {
  checkKeys(options, KEYS)
  return new RedisRecords(link, checkPrefix(options.prefix ?? DEFAULT_PREFIX), {
    waitReplicas: checkInteger(options.waitReplicas ?? 0, 'waitReplicas', 0, REPLICAS_MAX),
    waitReplicasMs: checkMs(options.waitReplicasMs ?? 1_000, 'waitReplicasMs', 1),
  })
}

class RedisRecords implements RecordStore {
  readonly name = 'redis'
  readonly #link: RedisLink
  readonly #prefix: string
  readonly #replicas: ReplicaOptions
  readonly #confirmed: ConfirmedCalls
  #traits: RecordTraits = { ...TRAITS, keeps: 'volatile' }
  #isOpen = false

  constructor(link: RedisLink, prefix: string, replicas: ReplicaOptions) {
    this.#link = link
    this.#prefix = prefix
    this.#replicas = replicas
    this.#confirmed = new ConfirmedCalls(link, SCRIPT, replicas)
  }

  get traits(): RecordTraits {
    return this.#traits
  }

  /** A right that is missing is found here: met between two steps of a claim, it would leave a record that never ends. */
  async open(): Promise<void> {
    this.#isOpen = true
    try {
      const [keeps] = await Promise.all([keepsOf(this.#link), this.#ask(randomName(), ['h'])])
      this.#traits = { ...TRAITS, keeps }
    } catch (error) {
      this.#isOpen = false
      throw redisError(error)
    }
  }

  async claim(ask: ClaimAsk): Promise<ClaimAnswer> {
    const { key, owner, fingerprint, leaseMs, retentionMs, takeOver, onlyIssued } = ask
    const args = ['c', owner, ms(leaseMs), life(retentionMs), takeOver ? '1' : '0', onlyIssued ? '1' : '0']
    if (fingerprint !== null) args.push(fingerprint)
    if (this.#replicas.waitReplicas === 0) return readClaim(await this.#ask(key, args))
    return await this.#claimConfirmed(ask, args)
  }

  async renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    const calls = asks.map(({ key, owner, fence, leaseMs, retentionMs }) =>
      this.#sure(key, ['r', owner, String(fence), ms(leaseMs), life(retentionMs)]),
    )
    // One node of a cluster that is down, or hangs, must not cost the claims that live on the others.
    const { waitReplicas, waitReplicasMs } = this.#replicas
    const graceMs = renewGraceMs(asks.map(({ leaseMs }) => leaseMs))
    const patienceMs = waitReplicas === 0 ? graceMs : Math.max(graceMs, waitReplicasMs)
    const answers = await settledSoon(calls, patienceMs, hungNode)
    const first = answers[0]
    if (first?.status === 'rejected' && answers.every(({ status }) => status === 'rejected'))
      throw first.reason
    return answers.map((each) => {
      if (each.status === 'rejected') return 'unknown'
      return each.value === '1' ? 'renewed' : each.value === '0' ? 'lost' : 'unknown'
    })
  }

  async finish({ key, owner, fence, state, result, retentionMs }: FinishAsk): Promise<FinishAnswer> {
    const args = ['f', owner, String(fence), state, life(retentionMs)]
    if (result !== null) args.push(result)
    return readFlag(await this.#sure(key, args)) ? 'done' : 'stale'
  }

  async save({ key, owner, fence, progress }: ProgressAsk): Promise<FinishAnswer> {
    return readFlag(await this.#sure(key, ['s', owner, String(fence), progress])) ? 'done' : 'stale'
  }

  async read(key: string): Promise<RecordView | null> {
    return readView(await this.#ask(key, ['v']))
  }

  async issue(key: string, retentionMs: number): Promise<boolean> {
    return readFlag(await this.#sure(key, ['i', life(retentionMs)]))
  }

  async spend({ key, count }: SpendAsk): Promise<SpendAnswer> {
    return readSpend(await this.#sure(key, ['t', count ? '1' : '0']))
  }

  async forget(key: string): Promise<boolean> {
    return readFlag(await this.#ask(key, ['d']))
  }

  async close(): Promise<void> {
    this.#isOpen = false
    await this.#link.close()
  }

  /** A claim that the replicas have not confirmed could be forgotten while its owner works. So it is taken back. */
  async #claimConfirmed(ask: ClaimAsk, args: readonly string[]): Promise<ClaimAnswer> {
    const { answer, replicas } = await this.#askReplicas(ask.key, args)
    const claim = readClaim(answer)
    const { waitReplicas } = this.#replicas
    // Whatever else it says was not written by this call, so nobody has to confirm it.
    if (replicas >= waitReplicas || claim.kind !== 'claimed') return claim
    await this.#takeBack({ key: ask.key, owner: ask.owner, fence: claim.fence })
    throw claimNotReplicated(replicas, waitReplicas)
  }

  async #takeBack({ key, owner, fence }: ClaimRef): Promise<void> {
    try {
      await this.#ask(key, ['u', owner, String(fence)])
    } catch (cause) {
      throw new OutcomeUnknownError(
        'A claim that the replicas did not confirm may not have been taken back.',
        {
          backend: this.name,
          cause,
        },
      )
    }
  }

  /** An answer that enough replicas know of, where they are asked. */
  async #sure(key: string, args: readonly string[]): Promise<unknown> {
    const { waitReplicas } = this.#replicas
    if (waitReplicas === 0) return await this.#ask(key, args)
    const { answer, replicas } = await this.#askReplicas(key, args)
    // What was refused has changed nothing, and needs nobody to confirm it.
    if (replicas < waitReplicas && answer !== '0') throw changeNotReplicated(replicas, waitReplicas)
    return answer
  }

  async #askReplicas(key: string, args: readonly string[]): Promise<Confirmed> {
    if (!this.#isOpen) throw new ClosedError({ backend: this.name })
    try {
      const told = await this.#confirmed.run(this.#prefix + key, args)
      return { ...told, answer: this.#checked(told.answer) }
    } catch (error) {
      throw this.#failure(error)
    }
  }

  async #ask(key: string, args: readonly string[]): Promise<unknown> {
    if (!this.#isOpen) throw new ClosedError({ backend: this.name })
    const full = this.#prefix + key
    try {
      return this.#checked(await SCRIPT.run((command) => this.#link.send(full, command), [full], args))
    } catch (error) {
      throw this.#failure(error)
    }
  }

  #checked(answer: unknown): unknown {
    const refusal = refusalIn(answer, this.#prefix)
    if (refusal !== null) throw refusal
    return answer
  }

  #failure(error: unknown): unknown {
    const known = redisError(error)
    return redisErrorCode(error) === 'WRONGTYPE' ? foreignRecord(this.#prefix, error) : known
  }
}

function ms(value: number): string {
  return String(Math.ceil(value))
}

function life(retentionMs: number | null): string {
  return retentionMs === null ? FOR_EVER : ms(retentionMs)
}

/**
 * A server that has a limit and may evict forgets records before their time, and those with an expiry first. Where this
 * user may not ask, nothing is known, and whoever wants a record for ever should not be promised it by a guess.
 */
async function keepsOf(link: RedisLink): Promise<RecordTraits['keeps']> {
  const kept = await Promise.all((await link.masters()).map(keepsAll))
  return kept.every((each) => each) ? 'durable' : 'volatile'
}

async function keepsAll(node: RedisNode): Promise<boolean> {
  let info: string
  try {
    info = String(await node.send(['INFO', 'memory']))
  } catch (error) {
    if (redisErrorCode(error) !== null) return false
    throw error
  }
  const limit = /^maxmemory:(\d+)/m.exec(info)?.[1]
  const policy = /^maxmemory_policy:([a-z-]+)/m.exec(info)?.[1]
  return limit === '0' || (limit !== undefined && policy === 'noeviction')
}
