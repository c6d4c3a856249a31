/** Options, checked before any I/O, and resolved into values without gaps. */

import { InvalidInputError, UnsupportedError } from '../core/errors.js'
import { checkName } from '../core/names.js'
import {
  checkBoolean,
  checkFunction,
  checkInteger,
  checkKeys,
  checkMs,
  checkSignal,
} from '../core/options.js'
import type { RecordTraits } from '../core/records.js'
import { TIMER_MAX_MS } from '../core/timing.js'
import { durationMs } from './durations.js'
import type { FingerprintRule } from './fingerprint.js'
import { type FingerprintKeys, resolveFingerprintKey } from './fingerprint-keys.js'
import type { Codec, IdempotencyOptions, KeptResult, OnAbandoned, RunOptions } from './types.js'
import { jsonCodec } from './values.js'

/** One run, fully decided. */
export interface RunSettings<T> {
  /** 0: not at all. */
  readonly waitMs: number
  readonly onAbandoned: OnAbandoned<T>
  readonly isFinal: (error: unknown) => boolean
  readonly keep: KeptResult<T>
  readonly codec: Codec
  readonly leaseMs: number
  readonly maxRunMs: number
  /** null: for ever. */
  readonly retentionMs: number | null
  readonly fingerprint: FingerprintRule
  /** null: none. */
  readonly fingerprintKeys: FingerprintKeys | 'of the codec' | null
  readonly onStale: 'replay' | 'throw'
  readonly storeDown: 'refuse' | 'run-unprotected'
  readonly signal: AbortSignal | null
}

export interface Settings {
  readonly namespace: string
  readonly requestMs: number
  readonly localCache: { readonly max: number; readonly ttlMs: number } | null
  readonly allowVolatile: boolean
  readonly run: RunSettings<unknown>
}

const DEFAULT_LEASE_MS = 30_000
const DEFAULT_RUN_MS = 15 * 60_000
const DEFAULT_RETENTION_MS = 24 * 3_600_000
const RUN_KEYS = [
  'inFlight',
  'onAbandoned',
  'isFinal',
  'keep',
  'codec',
  'leaseMs',
  'maxRunMs',
  'retention',
  'fingerprint',
  'fingerprintKey',
  'onStale',
  'storeDown',
  'signal',
] as const
const OWN_KEYS = ['namespace', 'requestMs', 'localCache', 'allowVolatile'] as const

export function resolveSettings(options: IdempotencyOptions, traits: RecordTraits, store: string): Settings {
  checkKeys(options, [...RUN_KEYS.filter((key) => key !== 'signal'), ...OWN_KEYS])
  const { namespace = 'default', requestMs = 5_000, localCache, allowVolatile = false, ...run } = options
  checkBoolean(allowVolatile, 'allowVolatile')
  const base = baseSettings(traits)
  const limits = { traits, store, allowVolatile }
  return {
    namespace: checkName(namespace, 'namespace'),
    requestMs: checkMs(durationMs(requestMs, 'requestMs', 1), 'requestMs', 1),
    localCache: localCache === undefined ? null : resolveCache(localCache),
    allowVolatile,
    run: resolveRun<unknown>(run, base, limits),
  }
}

export interface RunLimits {
  readonly traits: RecordTraits
  readonly store: string
  readonly allowVolatile: boolean
}

export function resolveRun<T>(
  options: RunOptions<T>,
  base: RunSettings<T>,
  limits: RunLimits,
): RunSettings<T> {
  checkKeys(options, RUN_KEYS)
  const { traits } = limits
  const given = <K extends keyof RunSettings<T>>(
    key: K,
    value: RunSettings<T>[K] | undefined,
  ): RunSettings<T>[K] => (value === undefined ? base[key] : value)
  return {
    waitMs: options.inFlight === undefined ? base.waitMs : resolveWait(options.inFlight),
    onAbandoned: given('onAbandoned', checkOneOf(options.onAbandoned, 'onAbandoned', ['retry', 'block'])),
    isFinal: given('isFinal', checkedFunction(options.isFinal, 'isFinal')),
    keep: given('keep', checkKeep(options.keep)),
    codec: given('codec', checkCodec(options.codec)),
    leaseMs: options.leaseMs === undefined ? base.leaseMs : resolveLease(options.leaseMs, traits),
    maxRunMs: given(
      'maxRunMs',
      options.maxRunMs === undefined
        ? undefined
        : checkInteger(durationMs(options.maxRunMs, 'maxRunMs', 1), 'maxRunMs', 1, TIMER_MAX_MS),
    ),
    retentionMs:
      options.retention === undefined ? base.retentionMs : resolveRetention(options.retention, limits),
    fingerprint: given('fingerprint', checkFingerprint(options.fingerprint)),
    fingerprintKeys:
      options.fingerprintKey === undefined
        ? base.fingerprintKeys
        : resolveFingerprintKey(options.fingerprintKey),
    onStale: given('onStale', checkWord(options.onStale, 'onStale', ['replay', 'throw'])),
    storeDown: given('storeDown', checkWord(options.storeDown, 'storeDown', ['refuse', 'run-unprotected'])),
    signal: options.signal === undefined ? base.signal : checkSignal(options.signal),
  }
}

function baseSettings({ leaseMinMs, leaseMaxMs, retentionMaxMs }: RecordTraits): RunSettings<unknown> {
  return {
    waitMs: 0,
    onAbandoned: 'retry',
    isFinal: () => false,
    keep: 'whole',
    codec: jsonCodec,
    leaseMs: Math.max(leaseMinMs, Math.min(DEFAULT_LEASE_MS, leaseMaxMs)),
    maxRunMs: DEFAULT_RUN_MS,
    retentionMs: Math.min(DEFAULT_RETENTION_MS, retentionMaxMs ?? DEFAULT_RETENTION_MS),
    fingerprint: 'json',
    fingerprintKeys: 'of the codec',
    onStale: 'replay',
    storeDown: 'refuse',
    signal: null,
  }
}

function resolveWait(inFlight: NonNullable<RunOptions['inFlight']>): number {
  if (inFlight === 'reject') return 0
  checkKeys(inFlight, ['waitMs'], 'inFlight')
  return checkMs(inFlight.waitMs, 'inFlight.waitMs', 0)
}

function resolveLease(leaseMs: NonNullable<RunOptions['leaseMs']>, traits: RecordTraits): number {
  return checkInteger(durationMs(leaseMs, 'leaseMs', 1), 'leaseMs', traits.leaseMinMs, traits.leaseMaxMs)
}

/** What a store may forget it cannot keep for ever, and is not asked to unless somebody knows what that means. */
function resolveRetention(
  retention: NonNullable<RunOptions['retention']>,
  { traits, store, allowVolatile }: RunLimits,
): number | null {
  const { retentionMaxMs, keeps } = traits
  if (retention !== 'forever') {
    return checkKept(durationMs(retention, 'retention', 1), 'retention', traits, store)
  }
  if (keeps === 'durable' || (allowVolatile && retentionMaxMs === null)) return null
  throw new UnsupportedError(
    `The ${store} store may forget records, so it cannot keep one for ever. Choose a durable store` +
      `${retentionMaxMs === null ? ', or allow it with `allowVolatile`' : ''}.`,
    { backend: store },
  )
}

/** What the store cannot keep for so long is refused before it is asked. */
export function checkKept(
  ms: number,
  what: string,
  { retentionMaxMs }: Pick<RecordTraits, 'retentionMaxMs'>,
  store: string,
): number {
  if (retentionMaxMs === null || ms <= retentionMaxMs) return ms
  throw new UnsupportedError(
    `The ${store} store keeps a record for at most ${retentionMaxMs} ms, and \`${what}\` asks for more.`,
    { backend: store },
  )
}

function resolveCache(cache: NonNullable<IdempotencyOptions['localCache']>): Settings['localCache'] {
  checkKeys(cache, ['max', 'ttlMs'], 'localCache')
  return {
    max: checkInteger(cache.max, 'localCache.max', 1, 1_000_000),
    ttlMs: durationMs(cache.ttlMs, 'localCache.ttlMs', 1),
  }
}

function checkOneOf<V>(value: V | undefined, what: string, words: readonly string[]): V | undefined {
  if (value === undefined || typeof value === 'function') return value
  return checkWord(value, what, words)
}

function checkWord<V>(value: V | undefined, what: string, words: readonly string[]): V | undefined {
  if (value === undefined || (typeof value === 'string' && words.includes(value))) return value
  throw new InvalidInputError(what, words.map((word) => `'${word}'`).join(' or '), value)
}

function checkedFunction<V>(value: V | undefined, what: string): V | undefined {
  if (value !== undefined) checkFunction(value, what)
  return value
}

export function checkKeep<T>(keep: KeptResult<T> | undefined): KeptResult<T> | undefined {
  if (keep === undefined || typeof keep === 'string') return checkWord(keep, 'keep', ['whole', 'none'])
  checkKeys(keep, ['to', 'from'], 'keep')
  checkFunction(keep.to, 'keep.to')
  checkFunction(keep.from, 'keep.from')
  return keep
}

export function checkCodec(codec: Codec | undefined): Codec | undefined {
  if (codec === undefined) return codec
  if (typeof codec === 'object' && codec !== null) {
    checkFunction(Reflect.get(codec, 'encode'), 'codec.encode')
    checkFunction(Reflect.get(codec, 'decode'), 'codec.decode')
    return codec
  }
  throw new InvalidInputError('codec', 'an object with `encode` and `decode`', codec)
}

export function checkFingerprint(rule: FingerprintRule | undefined): FingerprintRule | undefined {
  if (rule === undefined || rule === false || rule === 'json' || typeof rule === 'function') return rule
  throw new InvalidInputError('fingerprint', "'json', false or a function", rule)
}
