/** Which stretch of time is looked at. Everything that shows one follows it. */
export class View {
  readonly span: number
  from = 0
  to: number
  readonly #listeners: (() => void)[] = []

  constructor(span: number) {
    this.span = Math.max(1, span)
    this.to = this.span
    this.reset()
  }

  get length(): number {
    return this.to - this.from
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  /** A little more than everything, so that what is at an edge can be seen. */
  reset(): void {
    this.show(-this.span * 0.01, this.span * 1.01)
  }

  show(from: number, to: number): void {
    const edge = this.span * 0.01
    const most = this.span + 2 * edge
    const length = Math.min(most, Math.max(Math.min(20, most), to - from))
    const middle = (from + to) / 2
    this.from = Math.min(Math.max(middle - length / 2, -edge), this.span + edge - length)
    this.to = this.from + length
    for (const listener of this.#listeners) listener()
  }

  pan(share: number): void {
    const by = this.length * share
    this.show(this.from + by, this.to + by)
  }

  /** Below 1 comes closer. What is at `at` stays where it is. */
  zoom(factor: number, at = (this.from + this.to) / 2): void {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor)
  }
}
