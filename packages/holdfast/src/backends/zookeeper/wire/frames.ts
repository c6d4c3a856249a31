/** Cuts the bytes of a connection into frames. It never keeps more than one frame, and no frame over the limit. */

import { garbage } from './errors.js'

const HEAD_BYTES = 4

export class FrameReader {
  #bytesMax: number
  readonly #head = Buffer.alloc(HEAD_BYTES)
  #headFilled = 0
  #body: Buffer | null = null
  #bodyFilled = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Holds from the next frame on. */
  allow(bytesMax: number): void {
    this.#bytesMax = bytesMax
  }

  /** The frames that the chunk completes. Throws a PROTOCOL error at a length that no frame can have. */
  *read(chunk: Buffer): Generator<Buffer, void, void> {
    let at = 0
    while (at < chunk.length) {
      if (this.#body === null) {
        const copied = chunk.copy(this.#head, this.#headFilled, at, at + HEAD_BYTES - this.#headFilled)
        at += copied
        this.#headFilled += copied
        if (this.#headFilled < HEAD_BYTES) return
        this.#headFilled = 0
        const length = this.#checked(this.#head.readInt32BE(0))
        if (chunk.length - at >= length) {
          yield chunk.subarray(at, at + length)
          at += length
          continue
        }
        this.#body = Buffer.allocUnsafe(length)
        this.#bodyFilled = 0
      }
      const copied = chunk.copy(this.#body, this.#bodyFilled, at)
      at += copied
      this.#bodyFilled += copied
      if (this.#bodyFilled < this.#body.length) return
      const whole = this.#body
      this.#body = null
      yield whole
    }
  }

  #checked(length: number): number {
    if (length >= 0 && length <= this.#bytesMax) return length
    throw garbage(`a frame has ${length} bytes, and ${this.#bytesMax} is the most`)
  }
}
