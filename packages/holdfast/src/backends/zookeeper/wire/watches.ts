/** The watches of a session. They outlive connections: a new server is told of them, and says what was missed. */

import { JuteWriter } from './jute.js'
import { type NodeEventType, OPCODE, XID } from './records.js'

/**
 * It is called once. `none` means that the session has ended, and nothing can be said of the node any more. It may be
 * called before the caller sees the answer to the request that left the watch.
 */
export type WatchListener = (event: { readonly type: NodeEventType | 'none'; readonly path: string }) => void

/** `data` is left by reading a node, `exists` by asking for one that is missing, `children` by listing its children. */
export type WatchKind = 'data' | 'exists' | 'children'

type Listeners = Map<string, Set<WatchListener>>

// Servers refuse frames of a megabyte, so many watches are told in several.
const FRAME_BYTES = 128 * 1_024

const CONCERNED: Record<NodeEventType, readonly WatchKind[]> = {
  created: ['data', 'exists'],
  changed: ['data', 'exists'],
  deleted: ['data', 'exists', 'children'],
  children: ['children'],
}

/** All paths are those of the server. */
export class WatchTable {
  readonly #kinds: Record<WatchKind, Listeners> = { data: new Map(), exists: new Map(), children: new Map() }

  add(kind: WatchKind, path: string, listener: WatchListener): void {
    const known = this.#kinds[kind].get(path)
    if (known === undefined) this.#kinds[kind].set(path, new Set([listener]))
    else known.add(listener)
  }

  remove(path: string, listener: WatchListener): void {
    for (const listeners of Object.values(this.#kinds)) {
      const known = listeners.get(path)
      known?.delete(listener)
      if (known?.size === 0) listeners.delete(path)
    }
  }

  /** Whom an event concerns; they are forgotten, because a watch fires once. */
  take(type: NodeEventType, path: string): ReadonlySet<WatchListener> {
    const taken = new Set<WatchListener>()
    for (const kind of CONCERNED[type]) {
      for (const listener of this.#kinds[kind].get(path) ?? []) taken.add(listener)
      this.#kinds[kind].delete(path)
    }
    return taken
  }

  takeAll(): ReadonlyMap<string, ReadonlySet<WatchListener>> {
    const taken = new Map<string, Set<WatchListener>>()
    for (const listeners of Object.values(this.#kinds)) {
      for (const [path, some] of listeners) {
        const known = taken.get(path) ?? new Set<WatchListener>()
        for (const listener of some) known.add(listener)
        taken.set(path, known)
      }
      listeners.clear()
    }
    return taken
  }

  /** What tells a server of all watches, and of the last change that this client has seen. */
  frames(lastZxid: bigint): Buffer[] {
    const frames: Buffer[] = []
    let part: Record<WatchKind, string[]> = { data: [], exists: [], children: [] }
    let bytes = 0
    const finish = (): void => {
      if (bytes > 0) frames.push(setWatchesFrame(lastZxid, part))
      part = { data: [], exists: [], children: [] }
      bytes = 0
    }
    for (const kind of ['data', 'exists', 'children'] as const) {
      for (const path of this.#kinds[kind].keys()) {
        part[kind].push(path)
        bytes += Buffer.byteLength(path) + 4
        if (bytes > FRAME_BYTES) finish()
      }
    }
    finish()
    return frames
  }
}

function setWatchesFrame(lastZxid: bigint, paths: Record<WatchKind, readonly string[]>): Buffer {
  const writer = new JuteWriter().int(XID.setWatches).int(OPCODE.setWatches).long(lastZxid)
  for (const kind of ['data', 'exists', 'children'] as const) {
    writer.vector(paths[kind], (path) => writer.text(path))
  }
  return writer.frame()
}
