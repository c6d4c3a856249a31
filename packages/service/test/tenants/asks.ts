/** Makes requests to acquire: most of them sensible, some of them hostile. */

import type { Random } from '../fuzz/random.js'
import type { Shape } from './entries.js'
import type { Ask } from './pending.js'
import { type Group, type Kind, may, READ_WRITE_LIMIT, type Tenant, type UsedName } from './world.js'

/** The longest lease that the service of a run allows. */
export const TTL_MAX_MS = 120_000
export const WAIT_MAX_MS = 5_000
/** So many claims one token may have: few, so that sequences of a few hundred requests reach the limit. */
export const CLAIMS_MAX = 14
/** Short leases end while a run goes on: that is how its clock progresses. */
const SHORT_TTLS_MS = [300, 450, 600, 900]
const LONG_TTL_MS = 60_000

export interface MadeAsk {
  readonly ask: Ask
  readonly body: unknown
  /** Statuses with which it must be refused for what it says. */
  readonly flaws: readonly number[]
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyz'

/** An id that tells in any text whose it is. */
export function makeId(tenant: Tenant, random: Random, number: number): string {
  return `id-${tenant.name}-${number}-${random.text(LETTERS, 16)}`
}

/** A name that the tenant mostly may use. */
export function pickName(group: Group, tenant: Tenant, random: Random): UsedName {
  const own = group.names.filter(({ name }) => may(tenant.rights, 'acquire', name))
  return own.length === 0 || random.chance(0.12) ? random.pick(group.names) : random.pick(own)
}

/** What is usually asked for under a name, sometimes another kind of lock. */
export function pickShape(
  used: UsedName,
  random: Random,
): { readonly shape: Shape; readonly weight: number } {
  if (random.chance(0.05)) return weighed({ kind: 'semaphore', limit: random.between(2, 5) }, random)
  return weighed({ kind: used.kind, limit: used.limit }, random)
}

export function weighed(shape: Shape, random: Random): { readonly shape: Shape; readonly weight: number } {
  const { kind, limit } = shape
  if (kind === 'mutex') return { shape, weight: 1 }
  if (kind === 'read-write') return { shape, weight: random.chance(0.3) ? READ_WRITE_LIMIT : 1 }
  const isLarge = limit > 10 && !random.chance(0.1)
  return { shape, weight: random.between(1, isLarge ? 2 : limit) }
}

export function pickTtl(tenant: Tenant, random: Random): number {
  if (random.chance(0.7)) return random.pick(SHORT_TTLS_MS)
  return Math.min(tenant.maxTtlMs ?? LONG_TTL_MS, LONG_TTL_MS)
}

/** A note with the mark of its lock, sometimes as large as can be. */
export function pickNote(group: Group, name: string, random: Random): string | null {
  if (random.chance(0.2)) return null
  const mark = group.marks.add(name, 'inspect')
  return random.chance(0.25) ? mark + '"'.repeat(1_024 - mark.length) : mark
}

export function bodyOf(
  { shape, weight, ttlMs, waitMs, stayMs, id, note }: Ask,
  group: Group,
  random: Random,
): Record<string, unknown> {
  const mode = shape.kind === 'read-write' ? (weight === 1 ? 'read' : 'write') : shape.kind
  const host = `${group.prefix}host${note?.startsWith('mk.') === true ? note.slice(0, 12) : ''}`
  return {
    mode,
    ...(shape.kind === 'semaphore' ? { limit: shape.limit, permits: weight } : {}),
    ttlMs,
    ...(waitMs === 0 ? {} : { waitMs }),
    ...(stayMs === 0 ? {} : { stayMs }),
    ...(id === null ? {} : { id }),
    ...(note === null ? {} : { note }),
    ...(random.chance(0.3) ? { owner: { host: host.replaceAll('"', ''), pid: 7, client: 'c' } } : {}),
    ...(random.chance(0.1) ? { details: false } : {}),
  }
}

type Spoil = (body: Record<string, unknown>, random: Random) => unknown

/** Each makes a request that must be refused with 400. */
const SPOILS: readonly Spoil[] = [
  (body) => ({ ...body, ttlMs: TTL_MAX_MS + 1 }),
  (body) => ({ ...body, ttlMs: 1.5 }),
  (body) => ({ ...body, ttlMs: -1 }),
  (body) => ({ ...body, ttlMs: 1 }),
  (body) => ({ ...body, waitMs: WAIT_MAX_MS + 1 }),
  (body) => ({ ...body, stayMs: WAIT_MAX_MS + 1 }),
  (body) => ({ ...body, note: 'n'.repeat(1_025) }),
  (body) => ({ ...body, note: '锁'.repeat(342) }),
  (body) => ({ ...body, note: 'line\nbreak' }),
  (body) => ({ ...body, id: 'short' }),
  (body) => ({ ...body, id: `${'x'.repeat(30)}/..` }),
  (body) => ({ ...body, mode: 'admin' }),
  (body) => ({ ...body, mode: 'semaphore', limit: 2, permits: 3 }),
  (body) => ({ ...body, mode: 'mutex', limit: 2 ** 31 }),
  (body) => ({ ...body, principal: 'g0-admin' }),
  (body) => ({ ...body, owner: { host: 'h', pid: 1, client: 'a b' } }),
  (body) => `${JSON.stringify(body)}}`,
  () => '[]',
  () => '{"__proto__":{"admin":true}}',
]

/** Changes the body so that it must be refused. */
export function spoiled(body: Record<string, unknown>, random: Random): Pick<MadeAsk, 'body' | 'flaws'> {
  if (random.chance(0.1)) return { body: { ...body, note: 'n'.repeat(20_000) }, flaws: [413, 400] }
  return { body: random.pick(SPOILS)(body, random), flaws: [400, 403] }
}

const OTHER_KINDS: readonly Kind[] = ['mutex', 'semaphore', 'read-write']

/** Another kind of lock than a claim is. */
export function anotherShape({ kind }: Shape, random: Random): Shape {
  const other = random.pick(OTHER_KINDS.filter((each) => each !== kind))
  const limit = other === 'mutex' ? 1 : other === 'semaphore' ? 4 : READ_WRITE_LIMIT
  return { kind: other, limit }
}
