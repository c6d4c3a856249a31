/** From what a request says to a claim, and back. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { InvalidInputError, type Shape } from 'holdfast'
import {
  type Claim,
  type Counter,
  checkName,
  checkNote,
  checkTtl,
  FENCE_STEP,
  fenceOf,
  flowMarkWithin,
  LIMIT_MAX,
  readClaim,
  systemRuntime,
} from 'holdfast/service'
import type { AcquireBody } from '../schemas/locks.js'
import { requireRight, requireTtl } from '../security/guard.js'
import type { Limits } from '../security/limits.js'
import { ANYBODY, type Right } from '../security/principal.js'

export interface ToName {
  Params: { name: string }
}

/** Names the locks `.` and `..` by the query `name`, because URL parsers remove such segments from a path. */
export function nameFromQuery(
  { params, query }: FastifyRequest,
  _reply: FastifyReply,
  done: () => void,
): void {
  if (isRecord(params) && 'name' in params && isRecord(query)) {
    const { name } = query
    if (name === '.' || name === '..') params['name'] = name
  }
  done()
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

export interface ClaimRules {
  readonly counter: Counter
  readonly limits: Limits
}

/** The name, once it is known to be one and the caller to have the right to it. */
export function nameFor(
  { counter }: ClaimRules,
  request: FastifyRequest,
  right: Right,
  name: string,
): string {
  checkName(name, 'name', counter.limits.nameBytesMax)
  requireRight(request, right, name)
  return name
}

/** What somebody asks for, fully decided. */
export function claimFor(
  rules: ClaimRules,
  request: FastifyRequest<{ Body: AcquireBody }>,
  resource: string,
): Claim {
  const { body } = request
  const { counter } = rules
  const ttlMs = checkLease(rules, request, body.ttlMs ?? counter.settings.ttlMs)
  return {
    id: body.id ?? systemRuntime.random.id(),
    resource,
    ...weightFor(body),
    ttlMs,
    owner: ownerFor(request),
    note: body.note === undefined ? null : checkNote(body.note),
  }
}

function weightFor({ mode = 'mutex', limit, permits }: AcquireBody): { shape: Shape; weight: number } {
  if (mode === 'semaphore') {
    if (limit === undefined) throw new InvalidInputError('limit', 'given for a semaphore', limit)
    const weight = permits ?? 1
    if (weight > limit) throw new InvalidInputError('permits', `at most \`limit\` (${limit})`, weight)
    return { shape: { kind: 'semaphore', limit }, weight }
  }
  if (limit !== undefined) throw new InvalidInputError('limit', 'left out but for a semaphore', limit)
  if (permits !== undefined) throw new InvalidInputError('permits', 'left out but for a semaphore', permits)
  if (mode === 'mutex') return { shape: MUTEX, weight: 1 }
  return { shape: READ_WRITE, weight: mode === 'write' ? LIMIT_MAX : 1 }
}

const MUTEX: Shape = { kind: 'mutex', limit: 1 }
const READ_WRITE: Shape = { kind: 'read-write', limit: LIMIT_MAX }

function ownerFor(request: FastifyRequest<{ Body: AcquireBody }>): Claim['owner'] {
  const { principal } = request
  const { owner } = request.body
  if (owner === undefined) return { host: request.ip, pid: 0, client: principal.name }
  return {
    host: checkName(owner.host, 'owner.host', OWNER_HOST_BYTES_MAX),
    pid: owner.pid,
    client: principal === ANYBODY ? owner.client : flowMarkWithin(owner.client, principal.name),
  }
}

const OWNER_HOST_BYTES_MAX = 255

/** A lease that the store, the service and the caller's token allow. */
export function checkLease(rules: ClaimRules, request: FastifyRequest, leaseMs: number): number {
  requireTtl(request, leaseMs)
  return checkTtl(leaseMs, leaseLimits(rules))
}

/** The limits of the store and of the service. */
export function leaseLimits({ counter, limits }: ClaimRules): Counter['limits'] {
  return { ...counter.limits, ttlMaxMs: Math.min(counter.limits.ttlMaxMs, limits.ttlMaxMs) }
}

/** The claim of a text, and the place that is meant: as the text says it, or as the field beside it does. */
export function readPlace(
  { limits }: ClaimRules,
  name: string,
  text: string,
  given: string | null | undefined,
): { readonly claim: Claim; readonly fence: bigint | null } {
  const { claim: meant, fence: written } = readClaim(text, name)
  // How long a release is tried depends on it, and anybody can write a text.
  const claim = { ...meant, ttlMs: Math.min(meant.ttlMs, limits.ttlMaxMs) }
  if (given === undefined && written === undefined) {
    throw new InvalidInputError('fence', 'given with a claim text that was not answered by `acquire`', given)
  }
  const fence = given === undefined ? written : given === null ? null : fenceFrom(given)
  return { claim, fence: fence ?? null }
}

/** A fence as callers see it, as text, because it exceeds what a number can hold. */
export function fenceText(stored: bigint | null): string | null {
  return stored === null ? null : String(fenceOf(stored, 0))
}

function fenceFrom(text: string): bigint {
  const fence = BigInt(text)
  if (fence % FENCE_STEP !== 0n) throw new InvalidInputError('fence', 'as `acquire` answered it', text)
  return fence / FENCE_STEP
}

/** How a lease is told: for programs in milliseconds, for people as a date. */
export function leaseOf(
  ttlMs: number,
  remainingMs: number,
): { ttlMs: number; remainingMs: number; deadline: string } {
  return { ttlMs, remainingMs, deadline: new Date(Date.now() + remainingMs).toISOString() }
}
