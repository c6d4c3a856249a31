/**
 * A *flow* is one piece of work that does one thing after the other, whatever it takes on the way. Its claims carry it as
 * part of `owner.client`, so that whoever looks at the store can tell which claims wait for each other:
 *
 *     <client>~d<path>    of a client that gives up the youngest wait of a deadlock
 *     <client>~s<path>    of a client that only shows them
 *
 * A path is a random beginning, and one part more for each level inside: what `1f00…-2-1` waits for holds up `1f00…-2`
 * and `1f00…`, in which it runs, but not `1f00…-3`, which runs beside it.
 */

import { digestOf } from './names.js'

export interface FlowMark {
  /** The client's own short reference, without the flow. */
  readonly client: string
  /** null where the claim does not say which flow it belongs to. */
  readonly path: string | null
  /** Whether its process gives up a wait that is part of a deadlock. */
  readonly detects: boolean
}

/** MySQL keeps 64 characters of `owner.client`, six of which are the client's own reference. */
const PATH_LENGTH_MAX = 56

/** The longest part that is one level of a path. */
const PART_LENGTH_MAX = 8
const PARTS = 36n ** BigInt(PART_LENGTH_MAX)

/** The random beginning of a path. */
const ROOT_LENGTH = 16

const PATH = /^[0-9a-f]{16}(?:-[0-9a-z]{1,8})*$/
const MARKED = /^([^~]{0,32})~([ds])([0-9a-f]{16}(?:-[0-9a-z]{1,8})*)$/

/** Whether a text from outside, such as a variable of the environment, can be the path of a flow. */
export function isFlowPath(text: string): boolean {
  return text.length <= PATH_LENGTH_MAX && PATH.test(text)
}

/** The path of something that runs inside; null where that is deeper than a store has room for. */
export function pathInside(path: string, part: string): string | null {
  const inside = `${path}-${part}`
  return inside.length > PATH_LENGTH_MAX ? null : inside
}

/** A part for something that nobody can count: of processes that know nothing of each other, no two shall get the same. */
export function randomPart(id: string): string {
  // An id is any text, and its digest is a number.
  const number = BigInt(`0x${digestOf(id)}`) % PARTS
  return number.toString(36).padStart(PART_LENGTH_MAX, '0')
}

export function writeFlowMark(client: string, path: string, detects: boolean): string {
  return `${client}~${detects ? 'd' : 's'}${path}`
}

/**
 * The same mark with a path that only claims of the same scope can have, whatever text the caller sent: it begins with a
 * digest. So a caller of the lock service cannot pass for a part of another caller's flow.
 */
export function flowMarkWithin(text: string, scope: string): string {
  const { client, path, detects } = readFlowMark(text)
  if (path === null) return text
  const root = digestOf(`${scope} ${rootOf(path)}`).slice(0, ROOT_LENGTH)
  return writeFlowMark(client, `${root}${path.slice(ROOT_LENGTH)}`, detects)
}

export function readFlowMark(text: string): FlowMark {
  const [, client = text, mode, path = null] = MARKED.exec(text) ?? []
  return { client, path, detects: mode === 'd' }
}

/** The random beginning, which all paths of one flow have. */
export function rootOf(path: string): string {
  return path.slice(0, ROOT_LENGTH)
}

/** The path itself, and those of all that it runs inside of. */
export function pathAndOuter(path: string): string[] {
  const paths = [path]
  for (let end = path.lastIndexOf('-'); end > 0; end = path.lastIndexOf('-', end - 1)) {
    paths.push(path.slice(0, end))
  }
  return paths
}
