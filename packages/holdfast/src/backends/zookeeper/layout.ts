/**
 * Where claims are, and what their nodes are called. It is the layout of Apache Curator, so that its
 * `InterProcessMutex` and `InterProcessReadWriteLock` on the same path stand in the same line:
 *
 *     /locks/orders/_c_6ba7b810-9dad-11d1-80b4-00c04fd430c8-lock-0000000007
 *     /locks/orders/_c_…-__READ__0000000008     /locks/orders/_c_…-__WRIT__0000000009
 *     /locks/orders/_c_…-permit-5-2-0000000010  two of five permits; Curator has nothing that fits
 *
 * The number behind `_c_` is made from the id of the claim: a client that got no answer finds its node by it, and nobody
 * can tell the id from it.
 */

import type { Claim, Shape } from '../../core/backend.js'
import { InvalidInputError } from '../../core/errors.js'
import { LIMIT_MAX } from '../../core/line.js'
import { digestOf, refOf } from '../../core/names.js'
import type { LineNode } from '../sessions/nodes.js'
import { nameOf, partOf } from '../shared/names.js'

/** A child that takes part in a line. */
export interface ZookeeperNode extends LineNode {
  /** What the server counted when it made it; below zero once the counter has overflown. */
  readonly sequence: number
}

/** The one node of a lock of the recipe `ephemeral`. No node of a line has this name. */
export const LOCK_NODE = 'lock'

const MUTEX: Shape = { kind: 'mutex', limit: 1 }
const READ_WRITE: Shape = { kind: 'read-write', limit: LIMIT_MAX }
/** `__lock__` is what kazoo, for Python, calls its nodes. */
const KNOWN = /(?:(lock-|__lock__)|(__READ__)|(__WRIT__)|-permit-(\d{1,10})-(\d{1,10})-)(-?\d{10})$/
const OWN = /^_c_([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})-/

/** What the nodes of a claim begin with, up to where the server's number follows. */
export function nodeName(claim: Claim): string {
  return `${mark(claim)}${kindOf(claim)}`
}

/** What every node of the claim begins with, whatever it weighs. */
export function mark({ id }: Claim): string {
  const hex = digestOf(id)
  return `_c_${[hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-')}-`
}

function kindOf({ shape, weight }: Claim): string {
  switch (shape.kind) {
    case 'mutex':
      return 'lock-'
    case 'read-write':
      return weight === shape.limit ? '__WRIT__' : '__READ__'
    case 'semaphore':
      return `permit-${shape.limit}-${weight}-`
  }
}

/** A child as a part of the line; null for one that is none. */
export function readNode(name: string): ZookeeperNode | null {
  const [, mutex, read, write, limit, weight, digits] = KNOWN.exec(name) ?? []
  if (digits === undefined) return null
  const node = { key: name, sequence: Number(digits) }
  if (mutex !== undefined) return { ...node, shape: MUTEX, weight: 1 }
  if (read !== undefined) return { ...node, shape: READ_WRITE, weight: 1 }
  if (write !== undefined) return { ...node, shape: READ_WRITE, weight: LIMIT_MAX }
  return { ...node, shape: { kind: 'semaphore', limit: Number(limit) }, weight: Number(weight) }
}

/** What people call the node. For ours it is the reference of its claim. */
export function refOfNode(name: string): string {
  const [, uuid] = OWN.exec(name) ?? []
  return uuid === undefined ? refOf(name) : uuid.replaceAll('-', '').slice(0, 12)
}

/** In order of their numbers; null if the counter has overflown, so that the numbers tell nothing. */
export function inOrder(nodes: readonly ZookeeperNode[]): readonly ZookeeperNode[] | null {
  if (nodes.some(({ sequence }) => sequence < 0)) return null
  return [...nodes].sort((a, b) => a.sequence - b.sequence)
}

/** Which path a name has, and which name a path. */
export interface Layout {
  readonly base: readonly string[]
  pathOf(resource: string): string
  /** null: names cannot be told from paths. */
  readonly nameOf: ((part: string) => string | null) | null
}

/** Each name is one part below the base. */
export function partsBelow(base: readonly string[]): Layout {
  const start = base.map((part) => `/${part}`).join('')
  return { base, pathOf: (resource) => `${start}/${partOf(resource)}`, nameOf }
}

/** The characters that no server takes in a path, beside control characters, which no name has. */
const FORBIDDEN = /[\ud800-\uf8ff\ufff0-\uffff]/

/** Each name is a path, for locks that other programs have already. */
export const EXACT_PATHS: Layout = {
  base: [],
  pathOf(resource) {
    const parts = resource.split('/')
    const isPath =
      parts.length > 1 && parts.shift() === '' && !parts.some((part) => ['', '.', '..'].includes(part))
    if (!isPath || FORBIDDEN.test(resource)) {
      throw new InvalidInputError(
        'name',
        'a path like `/apps/locks/orders`, because `exactPath` is set',
        resource,
      )
    }
    return resource
  },
  nameOf: null,
}
