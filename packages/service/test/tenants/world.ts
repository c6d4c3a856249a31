/** The tenants of a run: their tokens, their rights, the names they use, and marks by which data that leaks is recognized. */

import type { AuthEntry, AuthRight } from '../../src/security/auth-entries.js'
import { digestOfToken, mintToken } from '../../src/security/bearer-tokens.js'
import type { Right } from '../../src/security/principal.js'

export interface Tenant {
  readonly name: string
  readonly role: Role
  /** null: it sends no token. */
  readonly token: string | null
  /** Null: the service does not know the token. Changes when the auth file does. */
  rights: readonly AuthRight[] | null
  readonly maxTtlMs: number | null
  /** The rights before the last change of the auth file, until the service has surely read the file. */
  rightsBefore: { readonly rights: readonly AuthRight[] | null; readonly changedAt: number } | null
}

export type Role = 'user' | 'reader' | 'narrow' | 'admin' | 'hoarder' | 'fickle' | 'nobody' | 'forger'

export type Kind = 'mutex' | 'semaphore' | 'read-write'

/** A name of the group, with the kind of lock that it usually is. */
export interface UsedName {
  readonly name: string
  readonly kind: Kind
  readonly limit: number
}

/** `yes` and `no` are certain; `maybe`: the service is about to read a changed auth file. */
export type Sureness = 'yes' | 'no' | 'maybe'

/** A scope of records that a tenant uses. */
export interface UsedScope {
  readonly tenant: string
  readonly operation: string
}

/** Where a marked text may be shown. */
interface Mark {
  readonly right: readonly Right[]
  readonly name: string
}

const MARK = /mk\.(\d+)\./g

/** Marks are texts that stand for the lock or record in which they are kept. */
export class Marks {
  readonly #marks: Mark[] = []

  /** A mark for something that is shown only to tokens with one of the rights to the name. */
  add(name: string, ...right: readonly Right[]): string {
    this.#marks.push({ name, right })
    return `mk.${this.#marks.length - 1}.`
  }

  /** The mark of a name is in the name itself, so it is known only when the name is. */
  addName(before: string, after: string): string {
    const name = `${before}mk.${this.#marks.length}.${after}`
    this.#marks.push({ name, right: ['inspect'] })
    return name
  }

  /** What a response shows that the tenant may not see. What the request itself said may come back. */
  leaksIn(text: string, request: string, tenant: Tenant): readonly string[] {
    const found = new Set<string>()
    for (const [, number = ''] of text.matchAll(MARK)) found.add(number)
    return [...found].flatMap((number) => {
      const mark = this.#marks[Number(number)]
      if (mark === undefined || request.includes(`mk.${number}.`)) return []
      const isAllowed = mark.right.some((right) => mayNow(tenant, right, mark.name) !== 'no')
      return isAllowed ? [] : [`the mark ${number} of ${JSON.stringify(mark.name)}`]
    })
  }
}

export function may(rights: readonly AuthRight[] | null, right: Right, name: string): boolean {
  return rights?.some(({ prefix, can }) => can.includes(right) && name.startsWith(prefix)) ?? false
}

/** Whether a tenant has a right now. */
export function mayNow(tenant: Tenant, right: Right, name: string): Sureness {
  return both(may(tenant.rights, right, name), tenant, (rights) => may(rights, right, name))
}

export function mayAnyNow(tenant: Tenant, right: Right): Sureness {
  const any = (rights: readonly AuthRight[] | null): boolean =>
    rights?.some(({ can }) => can.includes(right)) ?? false
  return both(any(tenant.rights), tenant, any)
}

/** Whether the service knows the token of a tenant. */
export function isKnownNow(tenant: Tenant): Sureness {
  return both(tenant.rights !== null, tenant, (rights) => rights !== null)
}

function both(
  now: boolean,
  { rightsBefore }: Tenant,
  of: (rights: readonly AuthRight[] | null) => boolean,
): Sureness {
  if (rightsBefore !== null && of(rightsBefore.rights) !== now) return 'maybe'
  return now ? 'yes' : 'no'
}

/** One group of tenants with names of its own. Groups run beside each other and must not notice each other. */
export interface Group {
  readonly prefix: string
  readonly tenants: readonly Tenant[]
  readonly names: readonly UsedName[]
  readonly scopes: readonly UsedScope[]
  readonly marks: Marks
}

const LONGEST_NAME = 512

/** Hostile names, each inside the prefix of a tenant that may use it. */
const ODD_ENDINGS = [
  '/../../',
  '%2F%00',
  '"}],"x":[',
  '\u{202e}lock',
  '锁'.repeat(20),
  ' ',
  "'; DROP TABLE locks; --",
]

export function makeGroup(index: number, marks: Marks): Group {
  const g = `g${index}/`
  const names = namesOf(g, marks)
  const record = (who: string): string => `records/${`g${index}-${who}`}/`
  const token = (who: string): string => `tokens/g${index}-${who}`
  const own = (who: string): readonly AuthRight[] => [
    { prefix: `${g}${who[0]}/`, can: ['acquire', 'inspect'] },
    { prefix: `${g}s/`, can: ['acquire', 'inspect'] },
    { prefix: record(who), can: ['acquire', 'inspect', 'break'] },
    { prefix: token(who), can: ['acquire'] },
  ]
  const tenants: Tenant[] = [
    tenant(index, 'user', own('user')),
    tenant(index, 'reader', [
      { prefix: g, can: ['inspect'] },
      { prefix: record('user'), can: ['inspect'] },
    ]),
    tenant(
      index,
      'narrow',
      [
        { prefix: `${g}s/narrow/`, can: ['acquire'] },
        { prefix: `${g}n/`, can: ['acquire', 'inspect'] },
        { prefix: record('narrow'), can: ['acquire'] },
      ],
      5_000,
    ),
    tenant(index, 'admin', [{ prefix: g, can: ['inspect', 'break'] }]),
    tenant(index, 'hoarder', own('hoarder')),
    tenant(index, 'fickle', own('fickle')),
    { ...tenant(index, 'nobody', []), rights: null, token: null },
    { ...tenant(index, 'forger', []), rights: null },
  ]
  const scopes = ['user', 'narrow', 'hoarder', 'fickle'].map((who) => ({
    tenant: `g${index}-${who}`,
    operation: 'pay',
  }))
  return { prefix: g, tenants, names, scopes, marks }
}

function tenant(
  index: number,
  role: Role,
  rights: readonly AuthRight[],
  maxTtlMs: number | null = null,
): Tenant {
  return { name: `g${index}-${role}`, role, token: mintToken(), rights, maxTtlMs, rightsBefore: null }
}

function namesOf(g: string, marks: Marks): readonly UsedName[] {
  const kinds: readonly Omit<UsedName, 'name'>[] = [
    { kind: 'mutex', limit: 1 },
    { kind: 'semaphore', limit: 3 },
    { kind: 'read-write', limit: READ_WRITE_LIMIT },
    { kind: 'semaphore', limit: CROWD_LIMIT },
  ]
  const sections = ['u/', 's/', 's/', 's/narrow/', 'n/', 'h/', 'f/']
  const plain = sections.flatMap((section) =>
    kinds.map((kind) => ({ name: marks.addName(`${g}${section}`, 'x'), ...kind })),
  )
  const odd = ODD_ENDINGS.map((ending, at) => ({
    name: marks.addName(`${g}s/`, ending),
    ...(kinds[at % 3] as Omit<UsedName, 'name'>),
  }))
  const longest = marks.addName(`${g}s/`, '')
  const long = { name: longest.padEnd(LONGEST_NAME, 'l'), kind: 'mutex' as const, limit: 1 }
  return [...plain, ...odd, long]
}

export const READ_WRITE_LIMIT = 2 ** 31 - 1
/** A semaphore with room for so many claims that a view of all of them is large. */
export const CROWD_LIMIT = 60

/** The auth file of all groups, with a token that may see everything and do nothing. */
export function authOf(groups: readonly Group[]): { readonly tokens: readonly AuthEntry[] } {
  const tokens = groups.flatMap(({ tenants }) =>
    tenants.flatMap(({ name, token: text, rights, maxTtlMs }) => {
      if (rights === null || text === null) return []
      const sha256 = digestOfToken(text)
      return [{ name, sha256, rights, ...(maxTtlMs === null ? {} : { maxTtlMs }) }]
    }),
  )
  return { tokens }
}
