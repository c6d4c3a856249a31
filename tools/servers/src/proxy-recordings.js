// @ts-check
// What clients have sent through a proxy, so that it can be sent once more.
import { connect } from 'node:net'

/** @typedef {{ chunks: Buffer[], length: number }} Recording */

// A connection is played again from its start or not at all, since a protocol cannot be entered in the middle.
const lengthMax = 256 * 1024
const recordingsMax = 64
const silentMs = 150
const replayMs = 3_000

export class Recordings {
  #target
  /** @type {Set<Recording> | undefined} */
  #kept
  /** @type {Set<import('node:net').Socket>} */
  #playing = new Set()

  /** @param {{ readonly host: string, readonly port: number, readonly noDelay: boolean }} target */
  constructor(target) {
    this.#target = target
  }

  /** @param {boolean} on */
  record(on) {
    this.#kept = on ? (this.#kept ?? new Set()) : undefined
    if (!on) for (const socket of this.#playing) socket.destroy()
  }

  /** A connection begins. @returns {(chunk: Buffer) => void} What is to be told of all that the server gets over it. */
  begin() {
    const kept = this.#kept
    if (kept === undefined || kept.size >= recordingsMax) return () => undefined
    /** @type {Recording} */
    const recording = { chunks: [], length: 0 }
    kept.add(recording)
    return (chunk) => {
      if (!kept.has(recording)) return
      recording.length += chunk.length
      if (recording.length > lengthMax) kept.delete(recording)
      else recording.chunks.push(chunk)
    }
  }

  /** @returns {Promise<number>} How many were played. */
  async replay() {
    const found = [...(this.#kept ?? [])].filter(({ length }) => length > 0)
    await Promise.all(found.map(({ chunks }) => this.#play(Buffer.concat(chunks))))
    return found.length
  }

  /** @param {Buffer} bytes @returns {Promise<void>} */
  #play(bytes) {
    return new Promise((resolve) => {
      const socket = connect(this.#target)
      this.#playing.add(socket)
      // The server tells by its replies that it is at work. One that says nothing more has done what it can.
      socket.setTimeout(silentMs, () => socket.destroy())
      const late = setTimeout(() => socket.destroy(), replayMs)
      socket.on('data', () => undefined)
      socket.on('error', () => undefined)
      socket.once('close', () => {
        clearTimeout(late)
        this.#playing.delete(socket)
        resolve()
      })
      socket.write(bytes)
    })
  }
}
