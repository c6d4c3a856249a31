import type { Seek } from './acquire.js'

/** The claims that are being sought, so that what the store pushes finds them. */
export class SeekIndex {
  readonly #byClaim = new Map<string, Seek>()
  readonly #byResource = new Map<string, Set<Seek>>()

  add(seek: Seek): void {
    this.#byClaim.set(seek.claim.id, seek)
    const same = this.#byResource.get(seek.claim.resource)
    if (same === undefined) this.#byResource.set(seek.claim.resource, new Set([seek]))
    else same.add(seek)
  }

  delete(seek: Seek): void {
    this.#byClaim.delete(seek.claim.id)
    const same = this.#byResource.get(seek.claim.resource)
    if (same?.delete(seek) && same.size === 0) this.#byResource.delete(seek.claim.resource)
  }

  ofClaim(claimId: string): Seek | undefined {
    return this.#byClaim.get(claimId)
  }

  ofResource(resource: string): Iterable<Seek> {
    return this.#byResource.get(resource) ?? []
  }
}
