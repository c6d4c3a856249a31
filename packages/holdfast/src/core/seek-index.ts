import { Seek } from './acquire.js'

/** The claims that are being sought, so that what the store pushes finds them. */
export class SeekIndex {
  readonly #byClaim = new Map<string, Seek>()
  /** Most resources have one, so a set is made only for the second. */
  readonly #byResource = new Map<string, Seek | Set<Seek>>()

  add(seek: Seek): void {
    this.#byClaim.set(seek.claim.id, seek)
    const same = this.#byResource.get(seek.claim.resource)
    if (same === undefined) this.#byResource.set(seek.claim.resource, seek)
    else if (same instanceof Set) same.add(seek)
    else this.#byResource.set(seek.claim.resource, new Set([same, seek]))
  }

  delete(seek: Seek): void {
    this.#byClaim.delete(seek.claim.id)
    const same = this.#byResource.get(seek.claim.resource)
    if (same instanceof Set) same.delete(seek)
    if (same === seek || (same instanceof Set && same.size === 0)) {
      this.#byResource.delete(seek.claim.resource)
    }
  }

  ofClaim(claimId: string): Seek | undefined {
    return this.#byClaim.get(claimId)
  }

  ofResource(resource: string): Iterable<Seek> {
    const found = this.#byResource.get(resource) ?? []
    return found instanceof Seek ? [found] : found
  }
}
