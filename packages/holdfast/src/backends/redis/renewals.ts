/** Renewals of claims on one resource go out as one step, so that many waiters of one queue cost little more than one. */

import type { Renewal, RenewRequest } from '../../core/backend.js'
import type { Answer } from './steps.js'

/** How many claims one step renews at the most. The script gives all of them to one command. */
const GROUP_MAX = 128

export interface Renewed {
  /** The position in the list of requests. */
  readonly at: number
  readonly request: RenewRequest
  readonly state: Renewal
  /** Whether the store says that the claim is admitted, and not only that it has a place. */
  readonly isAdmitted: boolean
}

export class RenewalGroup {
  readonly resource: string
  readonly #members: { readonly at: number; readonly request: RenewRequest }[] = []

  constructor(resource: string) {
    this.resource = resource
  }

  get isFull(): boolean {
    return this.#members.length >= GROUP_MAX
  }

  add(at: number, request: RenewRequest): void {
    this.#members.push({ at, request })
  }

  /** As the script wants to read it. */
  step(): string {
    const claims = this.#members.map(
      ({ request: { claim, fence, leaseMs } }) => `${claim.id} ${fence ?? 0n} ${Math.ceil(leaseMs)}`,
    )
    return `r ${claims.join(' ')}`
  }

  /** One letter for each claim: `0` is gone, `1` is renewed and waits, `g` is renewed and admitted. */
  read(outcome: PromiseSettledResult<Answer>): readonly Renewed[] {
    const answer = outcome.status === 'fulfilled' ? outcome.value : null
    const letters = answer?.text.length === this.#members.length ? answer.text : ''
    const isConfirmed = answer !== null && answer.unconfirmed === null
    return this.#members.map(({ at, request }, index) => {
      const letter = letters[index]
      const isRenewed = isConfirmed && (letter === '1' || letter === 'g')
      const state: Renewal = letter === '0' ? 'lost' : isRenewed ? 'renewed' : 'unknown'
      return { at, request, state, isAdmitted: isRenewed && letter === 'g' }
    })
  }
}

export function renewalGroups(requests: readonly RenewRequest[]): readonly RenewalGroup[] {
  const groups: RenewalGroup[] = []
  const open = new Map<string, RenewalGroup>()
  for (const [at, request] of requests.entries()) {
    const { resource } = request.claim
    let group = open.get(resource)
    if (group === undefined || group.isFull) {
      group = new RenewalGroup(resource)
      open.set(resource, group)
      groups.push(group)
    }
    group.add(at, request)
  }
  return groups
}
