/** Paths are checked before anything is sent, by the rules of the official client. */

import { ZooKeeperError } from './errors.js'

// Control characters, surrogates, the private area and the specials: no server accepts them in a name.
const FORBIDDEN = [
  [0x00, 0x1f],
  [0x7f, 0x9f],
  [0xd800, 0xf8ff],
  [0xfff0, 0xffff],
] as const

/** Gives the path back, or throws BAD_ARGUMENTS. A sequential node may be asked for by a path that ends in a slash. */
export function checkedPath(path: string, sequential = false): string {
  const fault = faultOf(sequential ? `${path}1` : path)
  if (fault === null) return path
  const shown = JSON.stringify(path.slice(0, 200))
  throw new ZooKeeperError('BAD_ARGUMENTS', `${shown} is no path of ZooKeeper: ${fault}.`, { path })
}

/** What nearly all paths look like, told in one look. */
const PLAIN = /^(?:\/(?!\.\.?(?:\/|$))[\w.%:-]+)+$/

function faultOf(path: string): string | null {
  if (PLAIN.test(path)) return null
  if (path === '/') return null
  if (!path.startsWith('/')) return 'it does not start with a slash'
  if (path.endsWith('/')) return 'it ends with a slash'
  const parts = path.slice(1).split('/')
  if (parts.includes('')) return 'it has an empty part'
  if (parts.some((part) => part === '.' || part === '..')) return 'it has a part that is `.` or `..`'
  if (hasForbidden(path)) return 'it has a control character or another one that is not allowed'
  return null
}

function hasForbidden(path: string): boolean {
  for (let at = 0; at < path.length; at += 1) {
    const unit = path.charCodeAt(at)
    if (FORBIDDEN.some(([first, last]) => unit >= first && unit <= last)) return true
  }
  return false
}

/** The part of the tree that a client sees: a prefix that the server's paths have and the client's do not. */
export class Chroot {
  readonly #prefix: string

  constructor(chroot: string | undefined) {
    const path = chroot === undefined || chroot === '' ? '/' : checkedPath(chroot)
    this.#prefix = path === '/' ? '' : path
  }

  toServer(path: string): string {
    if (this.#prefix === '') return path
    return path === '/' ? this.#prefix : `${this.#prefix}${path}`
  }

  /** A path from outside the prefix is given back as it is. */
  toClient(path: string): string {
    if (this.#prefix === '') return path
    if (path === this.#prefix) return '/'
    return path.startsWith(`${this.#prefix}/`) ? path.slice(this.#prefix.length) : path
  }
}
