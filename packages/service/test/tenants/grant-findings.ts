/** What can be wrong with an answer that grants a claim. */

import { livesSurely, type ReadText, sameShape } from './entries.js'
import type { Ask, Pending } from './pending.js'
import type { Answered } from './wire.js'

/** What the answer says must be what is stored, and not only what was asked for. */
export function textFindings(ask: Ask, json: Answered['json'], text: ReadText): string[] {
  const findings: string[] = []
  if (json['name'] !== ask.name) findings.push('shape: another name was answered')
  if (ask.id !== null && text.id !== ask.id) findings.push('shape: the claim of the answer has another id')
  if (text.kind !== ask.shape.kind || text.limit !== ask.shape.limit || text.weight !== ask.weight)
    findings.push(
      `weight: ${text.kind} ${text.weight} of ${text.limit} was answered, ${ask.weight} was asked for`,
    )
  if (Number(json['remainingMs']) > Number(json['leaseMs']))
    findings.push('lease: more is left than was promised')
  return findings
}

/** A claim that surely lives is answered as what it is. */
export function repeatFindings({ ask, before }: Pending, fence: bigint | null, at: number): string[] {
  if (!livesSurely(before, at)) return []
  const findings: string[] = []
  if (!sameShape(before.shape, ask.shape))
    findings.push('conflict: the claim with this id is another kind of lock')
  if (ask.weight > before.weightMax)
    findings.push(
      `weight: ${ask.weight} was answered from the request, and the claim has ${before.weightMax}`,
    )
  if (before.fence !== null && fence !== before.fence)
    findings.push(`fence: ${fence} for a claim that has ${before.fence}`)
  return findings
}
