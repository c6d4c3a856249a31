/**
 * A file for each name that must be held by one at a time. Whoever enters makes it, and only the system decides whether
 * it was there already; whoever leaves removes it. So two who are inside at once meet, whatever their locks say.
 *
 * A file that somebody left behind is no meeting: the file says until when its maker may be inside, and there is a mark
 * of every process that was killed, made before the kill.
 */

import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  renameSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { type Micros, processOf } from '../history/format.js'

/** Who is inside, and until when it may be. */
interface Inside {
  readonly p: string
  readonly until: Micros
}

/** Made before a process is killed, so that nobody who comes after it takes its file for a meeting. */
export function markAsKilled(scene: string, process: string): void {
  writeFileSync(join(scene, `killed-${process}`), '')
}

export class Tripwire {
  readonly #scene: string

  constructor(scene: string) {
    this.#scene = scene
  }

  /** The other one that is inside, or null if there is none. */
  enter(name: string, p: string, until: Micros, now: () => Micros): string | null {
    const path = this.#pathOf(name)
    const text = JSON.stringify({ p, until } satisfies Inside)
    try {
      const file = openSync(path, 'wx')
      writeSync(file, text)
      closeSync(file)
      return null
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error
    }
    const other = this.#inside(path)
    // The clock is read after the file: the other may have been inside until then, and not a moment longer.
    const met =
      other !== null && other.p !== p && other.until > now() && !this.#isKilled(other.p) ? other.p : null
    const mine = `${path}.${p}`
    writeFileSync(mine, text)
    renameSync(mine, path)
    return met
  }

  /** Removes the file unless it is another's by now. */
  leave(name: string, p: string): void {
    const path = this.#pathOf(name)
    if (this.#inside(path)?.p !== p) return
    try {
      unlinkSync(path)
    } catch (error) {
      // Another one may have taken the place of a maker whose time was over, and left, in between.
      if (codeOf(error) !== 'ENOENT') throw error
    }
  }

  #isKilled(p: string): boolean {
    return existsSync(join(this.#scene, `killed-${processOf(p)}`))
  }

  #inside(path: string): Inside | null {
    try {
      const text = readFileSync(path, 'utf8')
      // Its maker has not written it yet, or died before it could.
      return text === '' ? null : (JSON.parse(text) as Inside)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return null
      throw error
    }
  }

  #pathOf(name: string): string {
    return join(this.#scene, `inside-${name}`)
  }
}

function codeOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
}
