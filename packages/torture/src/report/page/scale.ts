import type { View } from './view.js'

/** Left of it stand the names. */
export const GUTTER = 216

/** Where a moment is on the canvas. */
export class Scale {
  readonly from: number
  readonly to: number
  readonly left = GUTTER
  readonly right: number
  readonly #perMicro: number

  constructor(view: View, width: number) {
    this.from = view.from
    this.to = view.to
    this.right = Math.max(GUTTER + 1, width)
    this.#perMicro = (this.right - this.left) / (view.to - view.from)
  }

  x(t: number): number {
    return this.left + (t - this.from) * this.#perMicro
  }

  /** Never far outside of the canvas, where browsers draw wrongly. */
  clampedX(t: number): number {
    return Math.min(Math.max(this.x(t), this.left - 4), this.right + 4)
  }

  t(x: number): number {
    return this.from + (x - this.left) / this.#perMicro
  }

  /** How long a pixel is. */
  get pixel(): number {
    return 1 / this.#perMicro
  }
}
