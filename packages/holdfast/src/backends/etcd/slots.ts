/** Which claims of one lease use which of its keys on a name. */
export class Slots {
  readonly #byClaim = new Map<string, { readonly resource: string; readonly slot: number }>()
  readonly #taken = new Map<string, Set<number>>()

  /** The slot of the claim: the one that it has, or the first that is free. */
  of(claimId: string, resource: string): number {
    const present = this.#byClaim.get(claimId)
    if (present !== undefined) return present.slot
    const taken = this.#taken.get(resource) ?? new Set<number>()
    this.#taken.set(resource, taken)
    let slot = 0
    while (taken.has(slot)) slot += 1
    taken.add(slot)
    this.#byClaim.set(claimId, { resource, slot })
    return slot
  }

  /** The slot is in use by something else for as long as the lease lives. The claim takes another one. */
  spoil(claimId: string): void {
    this.#byClaim.delete(claimId)
  }

  free(claimId: string): void {
    const present = this.#byClaim.get(claimId)
    if (present === undefined) return
    this.#byClaim.delete(claimId)
    const taken = this.#taken.get(present.resource)
    taken?.delete(present.slot)
    if (taken?.size === 0) this.#taken.delete(present.resource)
  }
}
