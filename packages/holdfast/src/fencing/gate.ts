import { StaleFenceError } from '../core/errors.js'
import { checkName } from '../core/names.js'
import { checkFence } from '../core/options.js'

/**
 * Guards a resource that lives in this process: it lets a fence pass only if none higher was seen. Show the fence
 * first, then read, then write; a stale writer could otherwise slip in between.
 */
export class FenceGate {
  readonly #highest = new Map<string, bigint>()

  /** Notes the fence, or throws `StaleFenceError` if the resource has seen a higher one. */
  pass(resource: string, fence: bigint): void {
    checkName(resource, 'resource')
    checkFence(fence)
    const highest = this.#highest.get(resource)
    if (highest !== undefined && fence < highest) throw new StaleFenceError(fence, highest, { resource })
    this.#highest.set(resource, fence)
  }

  /** The highest fence seen; null if none was. Keep it with the data if the data outlives the process. */
  highest(resource: string): bigint | null {
    checkName(resource, 'resource')
    return this.#highest.get(resource) ?? null
  }

  /** Takes up where a stored number left off. It never lowers the gate. */
  restore(resource: string, fence: bigint): void {
    checkName(resource, 'resource')
    checkFence(fence)
    const highest = this.#highest.get(resource)
    if (highest === undefined || fence > highest) this.pass(resource, fence)
  }

  /** Forgets a resource that is gone for good, so that the gate does not grow for ever. */
  forget(resource: string): void {
    checkName(resource, 'resource')
    this.#highest.delete(resource)
  }
}
