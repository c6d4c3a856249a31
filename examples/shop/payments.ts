/** Stands for a payment service: slow, somebody else's, and careful with keys as they all are. */
export class Payments {
  readonly #delayMs: number
  readonly #chargeIds = new Map<string, string>()
  readonly #orders: string[] = []

  constructor(delayMs: number) {
    this.#delayMs = delayMs
  }

  /** The orders that were charged for, each time that one was. */
  get charges(): readonly string[] {
    return this.#orders
  }

  async charge(key: string, orderId: string): Promise<string> {
    await new Promise((resolve) => setTimeout(resolve, this.#delayMs))
    const known = this.#chargeIds.get(key)
    if (known !== undefined) return known
    this.#orders.push(orderId)
    const id = `charge-${this.#orders.length}`
    this.#chargeIds.set(key, id)
    return id
  }
}
