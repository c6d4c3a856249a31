import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** What is to be done when a connection ends: one listener for each, since many requests may wait on one connection. */
const atEnd = new WeakMap<Socket, Set<() => void>>()

/**
 * Does this once: when a response was sent, or cannot be any more. One that stands behind another on the same connection
 * is not told of its end, so the connection is asked, too.
 */
export function whenOver(socket: Socket, response: ServerResponse, act: () => void): void {
  if (socket.destroyed || response.destroyed || response.closed) {
    act()
    return
  }
  const others = endOf(socket)
  const once = (): void => {
    if (others.delete(once)) act()
  }
  others.add(once)
  response.once('close', once)
}

function endOf(socket: Socket): Set<() => void> {
  const known = atEnd.get(socket)
  if (known !== undefined) return known
  const made = new Set<() => void>()
  atEnd.set(socket, made)
  socket.once('close', () => {
    for (const act of made) act()
  })
  return made
}

/** Tells when the caller goes away before it was answered. */
export class HangUp {
  #controller: AbortController | null = null
  #isGone = false
  #onGone: (() => void) | null = null

  constructor(socket: Socket, response: ServerResponse) {
    whenOver(socket, response, () => {
      if (response.writableFinished) return
      this.#isGone = true
      this.#controller?.abort()
      this.#onGone?.()
    })
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.#isGone) this.#controller.abort()
    }
    return this.#controller.signal
  }

  /** Does this when the caller goes, or now if it has. */
  whenGone(act: () => void): void {
    if (this.#isGone) act()
    else this.#onGone = act
  }
}
