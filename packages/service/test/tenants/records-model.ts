/** What is known of the records of one group. Requests for a record are sent one after the other, so only leases are uncertain. */

import { MARGIN_MS } from './entries.js'
import { type Answered, textIn } from './wire.js'

type Findings = readonly string[]

interface Owned {
  readonly owner: string
  readonly fence: string
}

type State =
  | { readonly kind: 'none' }
  | ({
      readonly kind: 'in-progress'
      readonly surelyUntil: number
      readonly possiblyUntil: number
      readonly input: number
    } & Owned)
  | ({ readonly kind: 'released'; readonly input: number } & Owned)
  | ({
      readonly kind: 'completed' | 'failed'
      readonly result: string | null
      readonly input: number
    } & Owned)

export interface ClaimRecord {
  readonly owner: string
  /** Which of several inputs the request has. */
  readonly input: number
  readonly leaseMs: number
}

/** One record. */
export class RecordModel {
  #state: State = { kind: 'none' }

  /** The last claim, for the requests that finish it. */
  get owned(): Owned | null {
    return this.#state.kind === 'none' ? null : this.#state
  }

  claimed(ask: ClaimRecord, { status, json }: Answered, sentAt: number, at: number): Findings {
    const state = this.#state
    const code = textIn(json, 'code')
    if (state.kind !== 'none' && state.input !== ask.input)
      return status === 422 ? [] : [`record: ${status} ${code} for another request with the same key`]
    if (state.kind === 'completed' || state.kind === 'failed') return settledFindings(state, status, json)
    if (status === 409 && code === 'IN_PROGRESS') {
      if (state.kind !== 'in-progress' || state.possiblyUntil < sentAt)
        return ['record: no claim can be at work']
      return state.owner === ask.owner && state.surelyUntil > at ? ['record: its owner was refused'] : []
    }
    if (status !== 201) return [`record: ${status} ${code} for a claim on a record that is ${state.kind}`]
    const claim = json['claim'] as Owned
    const findings: string[] = []
    const isSame = state.kind === 'in-progress' && state.owner === ask.owner
    if (state.kind === 'in-progress' && !isSame && state.surelyUntil > at)
      findings.push('record: two owners at the same time')
    if (claim.owner !== ask.owner) findings.push('record: claimed for another owner')
    if (state.kind !== 'none' && BigInt(claim.fence) < BigInt(state.fence))
      findings.push('record: its fence went back')
    const leaseMs = Number(json['leaseMs'])
    const keptUntil = isSame ? state.possiblyUntil : Number.NEGATIVE_INFINITY
    this.#state = {
      kind: 'in-progress',
      owner: ask.owner,
      fence: claim.fence,
      input: ask.input,
      surelyUntil: sentAt + leaseMs - MARGIN_MS,
      possiblyUntil: Math.max(keptUntil, at + Math.max(leaseMs, ask.leaseMs) + MARGIN_MS),
    }
    return findings
  }

  finished(
    ask: Owned & { readonly state: 'completed' | 'failed' | 'released'; readonly result: string | null },
    { status, json }: Answered,
  ): Findings {
    const state = this.#state
    const isOwn = state.kind !== 'none' && state.owner === ask.owner && state.fence === ask.fence
    const mayEnd = isOwn && (state.kind === 'in-progress' || state.kind === ask.state)
    if (status === 409) return mayEnd ? ['record: its owner could not finish it'] : []
    if (status !== 200) return [`record: ${status} ${textIn(json, 'code')} for the end of a claim`]
    if (!mayEnd) return ['record: a tenant finished a claim of another one']
    if (state.kind !== 'in-progress') return []
    const { owner, fence, input } = state
    this.#state =
      ask.state === 'released'
        ? { kind: 'released', owner, fence, input }
        : { kind: ask.state, owner, fence, input, result: ask.result }
    return []
  }

  read({ json }: Answered, mayClaim: boolean): Findings {
    const record = json['record'] as Record<string, unknown> | null
    const state = this.#state
    if (record === null) return state.kind === 'none' ? [] : [`record: it is ${state.kind} and was not found`]
    const findings: string[] = []
    if (record['state'] !== state.kind)
      findings.push(`record: shown as ${textIn(record, 'state')}, it is ${state.kind}`)
    if (!mayClaim && (record['owner'] !== '' || record['fingerprint'] !== null))
      findings.push('leak: the owner of a record is shown to a tenant that may not claim it')
    if ((state.kind === 'completed' || state.kind === 'failed') && record['result'] !== state.result)
      findings.push('record: another result is shown than was stored')
    return findings
  }

  forgotten({ json }: Answered): Findings {
    const was = this.#state.kind !== 'none'
    this.#state = { kind: 'none' }
    return json['forgotten'] === was ? [] : [`record: forgotten is ${String(json['forgotten'])}`]
  }
}

function settledFindings(
  state: Extract<State, { readonly result: string | null }>,
  status: number,
  json: Answered['json'],
): Findings {
  if (status !== 200) return [`record: ${status} for a record that is ${state.kind}`]
  if (json['state'] !== state.kind)
    return [`record: answered as ${textIn(json, 'state')}, it is ${state.kind}`]
  return json['result'] === state.result ? [] : ['record: another result was answered than was stored']
}
