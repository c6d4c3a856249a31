import type { LabHold, LabLock, LabWorld } from '../../lock.js'

/** What whoever comes with a key that has been used is told. It is not an error: what they want is done. */
export const DONE_ALREADY = 'done already'

/** The key is none that was handed out. */
export class UnknownToken extends Error {
  readonly code = 'UNKNOWN_TOKEN'
}

/**
 * A service that takes a payment at most once for each key. It is asked for by `act`: `issue` hands a key out, `submit`
 * is a request under a key. The request is recorded as `execute`, and the payment itself as `write`.
 */
export abstract class PaymentService implements LabLock {
  protected readonly world: LabWorld

  constructor(world: LabWorld) {
    this.world = world
  }

  /** Makes a key known, where the service does so. */
  protected abstract issue(token: string): Promise<void>

  /** Handles a request, and gives the answer. */
  protected abstract handle(token: string): Promise<string>

  abstract close(): Promise<void>

  acquire(): Promise<LabHold | null> {
    throw new Error('This recipe has no lock.')
  }

  async act(what: string, input: unknown): Promise<unknown> {
    const token = String(input)
    if (what === 'issue') return await this.#issue(token)
    if (what === 'submit') return await this.#submit(token)
    throw new Error(`This recipe cannot do '${what}'.`)
  }

  async #issue(token: string): Promise<void> {
    this.world.record({ f: 'issue', type: 'invoke', k: token })
    await this.issue(token)
    this.world.record({ f: 'issue', type: 'ok', k: token })
  }

  async #submit(token: string): Promise<string> {
    this.world.record({ f: 'execute', type: 'invoke', k: token, v: { input: 'pay 10' } })
    try {
      const value = await this.handle(token)
      this.world.record({ f: 'execute', type: 'ok', k: token, v: { value } })
      return value
    } catch (error) {
      if (!(error instanceof UnknownToken)) throw error
      this.world.record({ f: 'execute', type: 'fail', k: token, v: { error: error.code } })
      return error.code
    }
  }

  /** To be called before the payment is made, and with what came of it when that is known. */
  protected paying(token: string, receipt: string): void {
    this.world.record({ f: 'write', type: 'invoke', k: token, v: { value: `receipt ${receipt}` } })
  }

  protected paid(token: string, receipt: string): void {
    this.world.record({ f: 'write', type: 'ok', k: token, v: { value: `receipt ${receipt}` } })
  }
}

export function newReceipt(): string {
  return crypto.randomUUID().slice(0, 8)
}
