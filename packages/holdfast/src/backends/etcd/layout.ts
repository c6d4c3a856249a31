/**
 * Where the claims of a lock are: the layout of the locks in etcd's own Go package, which `etcdctl lock` uses, too. All keys
 * that begin with the name and a slash are claims on it, and the order in which they were made is the line.
 */

import { nameOf, partOf } from '../shared/names.js'

export interface LayoutOptions {
  /** What all keys begin with. */
  readonly prefix: string
  /** The name is used as it is, and not as one part of a path. */
  readonly exactPath: boolean
}

/** All keys that begin in some way: from `key` up to but without `end`. */
export interface KeyRange {
  readonly key: Buffer
  readonly rangeEnd: Buffer
}

export class Layout {
  readonly #options: LayoutOptions

  constructor(options: LayoutOptions) {
    this.#options = options
  }

  /** All claims on a name. */
  lineOf(resource: string): KeyRange {
    return beginning(Buffer.from(this.#folderOf(resource)))
  }

  /**
   * The key of a claim of our own. It is named after the lease, as those of others are, and a number where a lease has
   * several claims on a name. So the same few keys are used again and again: a server walks over all that there ever were
   * since its history was last compacted.
   */
  keyOf(resource: string, lease: bigint, slot: number): Buffer {
    return Buffer.from(`${this.#folderOf(resource)}${lease.toString(16)}${slot === 0 ? '' : `-${slot}`}`)
  }

  /** Where all claims are on names that begin like this. */
  namesFrom(prefix: string): KeyRange {
    // The two names that mean folders are written otherwise than all that begin like them, so only the whole has both.
    const isFolder = prefix === '.' || prefix === '..'
    const part = this.#options.exactPath ? prefix : isFolder ? '' : partOf(prefix)
    return beginning(Buffer.from(this.#options.prefix + part))
  }

  /** On which name a key is a claim; null if on none. */
  nameOf(key: Buffer): string | null {
    const text = key.toString('utf8')
    const { prefix, exactPath } = this.#options
    if (!text.startsWith(prefix) || !Buffer.from(text).equals(key)) return null
    const rest = text.slice(prefix.length)
    const slash = exactPath ? rest.lastIndexOf('/') : rest.indexOf('/')
    if (slash <= 0) return null
    const part = rest.slice(0, slash)
    return exactPath ? part : nameOf(part)
  }

  #folderOf(resource: string): string {
    const { prefix, exactPath } = this.#options
    return `${prefix}${exactPath ? resource : partOf(resource)}/`
  }
}

/** The keys that begin with these bytes. An empty beginning means all keys. */
export function beginning(bytes: Buffer): KeyRange {
  if (bytes.length === 0) return { key: Buffer.of(0), rangeEnd: Buffer.of(0) }
  const end = Buffer.from(bytes)
  for (let index = end.length - 1; index >= 0; index -= 1) {
    const byte = end[index] as number
    if (byte === 0xff) continue
    end[index] = byte + 1
    return { key: bytes, rangeEnd: end.subarray(0, index + 1) }
  }
  return { key: bytes, rangeEnd: Buffer.of(0) }
}
