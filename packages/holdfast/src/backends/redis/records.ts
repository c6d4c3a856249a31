/**
 * Records of idempotency in Redis or Valkey: one text for each, with which `records.lua` does by the server's clock what
 * the rule says, one call for each question. What most claims come to, that nothing is there or that all is done, takes no
 * script: `SET` with `NX` and `GET` writes the record of a new claim, or gives the one that stands there.
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
import {
  foreignRecord,
  readClaim,
  readFlag,
  readFound,
  readSpend,
  readView,
  refusalIn,
} from './record-answers.js'
import { FORGOTTEN_MS, firstClaim, firstClaimed, letterOf, lineOf, ms, spanOf } from './record-value.js'
import { source } from './records.lua'
import { type Confirmed, ConfirmedCalls, type ReplicaOptions } from './replicas.js'
import { Script } from './script.js'
import { ServerClock } from './server-clock.js'

export interface RedisRecordsOptions extends RecordsOptions {
  /** A ready client of `ioredis` or `redis`: single, Sentinel or Cluster. Closing it stays with you. */
  readonly client: RedisClient
}

export interface RecordsOptions {
  /** What the keys begin with. Default `holdfast-idem:`. */
  readonly prefix?: string | undefined
  /** How many replicas must have confirmed a claim, a renewal, progress and an end before it counts. Default 0. */
  readonly waitReplicas?: number | undefined
  /** How long they may take for that. Default 1,000. */
  readonly waitReplicasMs?: number | undefined
}

const KEYS: readonly string[] = ['prefix', 'waitReplicas', 'waitReplicasMs']
/** No lock begins like this by default, so a list of locks never has to look at records. */
const DEFAULT_PREFIX = 'holdfast-idem:'
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
  readonly #clock = new ServerClock()
  /** Whether claims may go without the script: each node of a cluster has its own clock, and replicas confirm scripts. */
  #isPlain: boolean
  #traits: RecordTraits = { ...TRAITS, keeps: 'volatile' }
  #isOpen = false

  constructor(link: RedisLink, prefix: string, replicas: ReplicaOptions) {
    this.#link = link
    this.#prefix = prefix
    this.#replicas = replicas
    this.#confirmed = new ConfirmedCalls(link, SCRIPT, replicas)
    this.#isPlain = !link.isCluster && replicas.waitReplicas === 0
  }

  get traits(): RecordTraits {
    return this.#traits
  }

  /** A right that is missing is found here: met between two steps of a claim, it would leave a record that never ends. */
  async open(): Promise<void> {
    this.#isOpen = true
    try {
      const name = randomName()
      const [keeps] = await Promise.all([keepsOf(this.#link), this.#ask(name, ['h'])])
      if (this.#isPlain) await this.#look(name)
      this.#traits = { ...TRAITS, keeps }
    } catch (error) {
      this.#isOpen = false
      throw redisError(error)
    }
  }

  async claim(ask: ClaimAsk): Promise<ClaimAnswer> {
    const { key, owner, fingerprint, leaseMs, retentionMs, takeOver, onlyIssued } = ask
    const micros = this.#isPlain && mayBePlain(ask) ? this.#timeMicros(key) : null
    if (micros !== null) {
      const found = await this.#claimPlainly(ask, micros)
      if (found === null) return firstClaimed(ask, micros)
      const answer = typeof found === 'string' ? readFound(found, ask) : null
      if (answer !== null) return answer
    }
    const flags = [takeOver ? '1' : '0', onlyIssued ? '1' : '0']
    const args = ['c', owner, digits(leaseMs), String(spanOf(retentionMs)), ...flags, fingerprint ?? '']
    if (this.#replicas.waitReplicas === 0) return readClaim(await this.#ask(key, args), ask)
    return await this.#claimConfirmed(ask, args)
  }

  async renew(asks: readonly RenewAsk[]): Promise<readonly Renewal[]> {
    const calls = asks.map(({ key, owner, fence, leaseMs }) =>
      this.#sure(key, ['r', owner, String(fence), digits(leaseMs)]),
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
    const args = ['f', owner, String(fence), letterOf(state), lifeOf(retentionMs), lineOf(result)]
    return readFlag(await this.#sure(key, args)) ? 'done' : 'stale'
  }

  async save({ key, owner, fence, progress }: ProgressAsk): Promise<FinishAnswer> {
    return readFlag(await this.#sure(key, ['s', owner, String(fence), lineOf(progress)])) ? 'done' : 'stale'
  }

  async read(key: string): Promise<RecordView | null> {
    return readView(await this.#ask(key, ['v']))
  }

  async issue(key: string, retentionMs: number): Promise<boolean> {
    return readFlag(await this.#sure(key, ['i', lifeOf(retentionMs)]))
  }

  async spend({ key, count }: SpendAsk): Promise<SpendAnswer> {
    return readSpend(await this.#sure(key, ['t', count ? '1' : '0']))
  }

  async forget(key: string): Promise<boolean> {
    return readFlag(await this.#ask(key, ['d', String(FORGOTTEN_MS)]))
  }

  async close(): Promise<void> {
    this.#isOpen = false
    await this.#link.close()
  }

  /** null: it is not known, and by now it is being asked. */
  #timeMicros(key: string): number | null {
    const micros = this.#clock.micros()
    if (micros === null) void this.#look(key)
    return micros
  }

  async #look(key: string): Promise<void> {
    await this.#clock.look(() => this.#link.send(this.#prefix + key, ['TIME']))
  }

  /**
   * Claims what is new and reads what is there by one plain command. null: it was new. What is there may have more to it
   * than one can tell here, and `undefined` says nothing at all; then nothing has changed.
   */
  #claimPlainly(ask: ClaimAsk, micros: number): Promise<unknown> {
    if (!this.#isOpen) throw new ClosedError({ backend: this.name })
    const key = this.#prefix + ask.key
    const life = String(ms(ask.leaseMs) + spanOf(ask.retentionMs))
    const command = ['SET', key, firstClaim(ask, micros), 'NX', 'GET', 'PX', life]
    return this.#link.send(key, command).catch((error: unknown) => {
      const code = redisErrorCode(error)
      if (code === null) throw redisError(error)
      // Redis before 7 does not know the two together. One that refuses for another reason may still answer the script.
      if (code === 'ERR') this.#isPlain = false
    })
  }

  /** A claim that the replicas have not confirmed could be forgotten while its owner works. So it is taken back. */
  async #claimConfirmed(ask: ClaimAsk, args: readonly string[]): Promise<ClaimAnswer> {
    const { answer, replicas } = await this.#askReplicas(ask.key, args)
    const claim = readClaim(answer, ask)
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
  #sure(key: string, args: readonly string[]): Promise<unknown> {
    return this.#replicas.waitReplicas === 0 ? this.#ask(key, args) : this.#askSure(key, args)
  }

  async #askSure(key: string, args: readonly string[]): Promise<unknown> {
    const { waitReplicas } = this.#replicas
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

/**
 * A claim that arrives late, because its connection was interrupted, brings an old fence with it. For as long as anybody
 * would still begin under it, whatever was claimed meanwhile must be there to be found.
 */
function mayBePlain({ leaseMs, retentionMs, onlyIssued }: ClaimAsk): boolean {
  return !onlyIssued && (retentionMs === null || retentionMs >= leaseMs)
}

function digits(value: number): string {
  return String(ms(value))
}

/** How long a key stays that nobody works on. */
function lifeOf(retentionMs: number | null): string {
  return retentionMs === null ? FOR_EVER : String(spanOf(retentionMs))
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
