/**
 * What makes sense beyond what a schema says, so that requests get further than to be told that a claim is gone: names
 * that come again, claims that were granted, one way to say which record is meant.
 */

import type { Random } from './random.js'

export const NAMES = ['a', 'b', 'c/d', 'e f', 'ü', '%', '..', '<b>', 'long'.repeat(100)]

/** What earlier answers brought. */
export interface Memory {
  /** Claims by the name of their lock. */
  readonly claims: Map<string, string>
  /** The owner and the fence of claims on records, by their key. */
  readonly records: Map<string, { readonly owner: string; readonly fence: string }>
  /** Tokens by their purpose. */
  readonly tokens: Map<string, string>
}

type Body = Record<string, unknown>

const SCOPE = { tenant: 'shop', operation: 'pay' }
const KEYS = ['order-1', 'order-2', 'order-3', 'order-4']
const PURPOSES = ['reset', 'invite']

/** Changes a body that fits the schema into one that can succeed, most of the time. */
export function makePlausible(path: string, name: string, body: Body, memory: Memory, random: Random): Body {
  if (random.chance(0.15)) return deepBrief(body)
  if (path.startsWith('/v1/locks/')) return brief(ofLock(path, name, body, memory, random))
  if (path === '/v1/renew') return ofBatch(body, memory, random)
  if (path.startsWith('/v1/records/')) return ofRecord(path, body, memory, random)
  return path.startsWith('/v1/tokens/') ? ofToken(path, body, memory, random) : body
}

/**
 * Nothing waits for long, or a run would have no end. And no lease is so short that it can run out while this machine
 * is busy with something else, because then nobody can say what happened, and the service says just that.
 */
export function brief(body: Body): Body {
  for (const field of ['ttlMs', 'leaseMs']) {
    const value = body[field]
    if (typeof value === 'number' && Number.isInteger(value) && value > 0 && value < 5_000)
      body[field] = 5_000
  }
  for (const field of ['waitMs', 'stayMs']) {
    const value = body[field]
    if (typeof value === 'number' && Number.isInteger(value) && value > 40 && value <= 600_000)
      body[field] = 20
  }
  return body
}

/** The same for the entries of a batch. */
function deepBrief(body: Body): Body {
  const { claims } = body
  if (Array.isArray(claims)) for (const claim of claims) brief(claim as Body)
  return brief(body)
}

function ofLock(path: string, name: string, body: Body, { claims }: Memory, random: Random): Body {
  if (!path.endsWith('/acquire')) {
    if ('claim' in body) body['claim'] = claims.get(name) ?? body['claim']
    delete body['fence']
    if (random.chance(0.7)) delete body['ttlMs']
    if (random.chance(0.5)) delete body['ref']
    return body
  }
  const { limit: _limit, permits: _permits, ...rest } = body
  // The lock with a slash is a semaphore, the one with a space is read and written, and all others are simple.
  if (name === 'c/d') return { ...rest, mode: 'semaphore', limit: 3, permits: random.between(1, 3) }
  return {
    ...rest,
    mode: name === 'e f' ? random.pick(['read', 'write']) : 'mutex',
    ttlMs: random.pick([5_000, 10_000, 30_000]),
  }
}

function ofBatch(body: Body, { claims }: Memory, random: Random): Body {
  const known = [...claims].map(([name, claim]) => ({
    name,
    claim,
    leaseMs: random.pick([0, 5_000, 30_000]),
  }))
  return known.length === 0 ? body : { claims: known.slice(0, random.between(1, known.length)) }
}

function ofRecord(path: string, body: Body, memory: Memory, random: Random): Body {
  if (path.endsWith('/issue') || path.endsWith('/spend')) {
    return { ...body, record: random.pick(['0', '1', '2']).repeat(64) }
  }
  const key = random.pick(KEYS)
  if (path.endsWith('/renew')) {
    return { claims: [{ scope: SCOPE, key, ...ownerOf(key, memory), leaseMs: random.pick([0, 5_000]) }] }
  }
  const { token: _token, record: _record, fingerprint: _print, ...rest } = body
  if ('retentionMs' in rest) rest['retentionMs'] = random.pick([null, 60_000])
  if ('leaseMs' in rest) rest['leaseMs'] = random.pick([1_000, 60_000])
  if ('onlyIssued' in rest) rest['onlyIssued'] = random.chance(0.2)
  const owner = path.endsWith('/finish') || path.endsWith('/save') ? ownerOf(key, memory) : {}
  return { ...rest, scope: SCOPE, key, ...owner }
}

function ownerOf(key: string, { records }: Memory): { readonly owner: string; readonly fence: string } {
  return records.get(key) ?? { owner: 'A'.repeat(22), fence: '1' }
}

function ofToken(path: string, body: Body, { tokens }: Memory, random: Random): Body {
  const purpose = random.pick(PURPOSES)
  const { bind: _bind, ...rest } = body
  const known = { ...rest, subject: 'somebody', purpose }
  if ('ttlMs' in known) Object.assign(known, { ttlMs: 60_000 })
  return path.endsWith('/consume') ? { ...known, token: tokens.get(purpose) ?? 'x' } : known
}

/** Keeps what an answer brought that later requests can use. */
export function remember(memory: Memory, path: string, sent: Body, answer: Body): void {
  if (path.endsWith('/acquire')) memory.claims.set(String(answer['name']), String(answer['claim']))
  if (path === '/v1/records/claim' && typeof answer['claim'] === 'object' && answer['claim'] !== null) {
    const { owner, fence } = answer['claim'] as { owner: string; fence: string }
    if (typeof sent['key'] === 'string') memory.records.set(sent['key'], { owner, fence })
  }
  if (path === '/v1/tokens/issue') memory.tokens.set(String(sent['purpose']), String(answer['token']))
}
